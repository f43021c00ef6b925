#!/usr/bin/env bash
# Software rendering for MuJoCo needs Mesa's EGL. Installs it where it may, names it where it may not.
set -euo pipefail
missing=()
[ "$(uname -s)" = Linux ] || exit 0
libraries=$(ldconfig -p)
[[ $libraries == *libEGL.so.1* ]] || missing+=(libegl1)
[[ $libraries == *libGL.so.1* ]] || missing+=(libgl1)
[[ $libraries == *libEGL_mesa.so* ]] || missing+=(libegl-mesa0)
ls /usr/lib/*/dri/swrast_dri.so >/dev/null 2>&1 || missing+=(libgl1-mesa-dri)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing system packages: ${missing[*]}"
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then exit 0; fi
    echo "They could not be installed; simulation will not render without them: ${missing[*]}" >&2
else
    echo "Simulation needs these system packages; install them with: sudo apt-get install ${missing[*]}" >&2
fi
