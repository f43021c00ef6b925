#!/usr/bin/env bash
# Everything that meets LeRobot, tested on 0.6 in an environment of its own: it needs Python 3.12, which this one may not
# have. The plug-in first, then our own commands; all tests there: make test PYTHON=python3.12 VENV=.venv-lerobot06
#   ROOMS06="lerobot serve"   some of the test folders alone
#   INSTALL06_SECONDS=240     do without, in one line, where installing takes longer
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV06:-.venv-lerobot06}"

find_python() {
    local candidate
    for candidate in "${PYTHON06:-}" python3.12 python3.13 "$HOME"/.pyenv/versions/3.1[23].*/bin/python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

python="$(find_python)"
if [ -z "$python" ]; then
    echo "LeRobot 0.6 was not tested: no Python 3.12 or later here (set PYTHON06 to one)"
    exit 0
fi
status=0
timeout "${INSTALL06_SECONDS:-0}" make --no-print-directory install PYTHON="$python" VENV="$venv" || status=$?
if [ "$status" = 124 ]; then
    echo "LeRobot 0.6 was not tested: its environment was not installed within $INSTALL06_SECONDS s"
    exit 0
fi
[ "$status" = 0 ] || exit "$status"
read -ra rooms <<<"${ROOMS06:-lerobot data audit cli train eval serve envs study}"
HF_HUB_OFFLINE=1 MUJOCO_GL="${MUJOCO_GL:-egl}" "$venv/bin/pytest" "${rooms[@]/#/tests/}" --numprocesses=auto --maxprocesses=4 --dist=loadfile "$@"
