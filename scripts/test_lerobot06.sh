#!/usr/bin/env bash
# The plug-in's tests on LeRobot 0.6, in an environment of its own: it needs Python 3.12, the rest of the project does not.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV06:-.venv-lerobot06}"

find_python() {
    local candidate
    for candidate in "${PYTHON06:-}" python3.12 python3.13 "$HOME"/.pyenv/versions/3.12.*/bin/python "$HOME"/.pyenv/versions/3.13.*/bin/python; do
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
if [ ! -e "$venv/.installed" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
        'lerobot[training,smolvla]==0.6.1' diffusers num2words pytest safetensors tensorboard timm
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps -e . -e plugins/lerobot_policy_ptr
    touch "$venv/.installed"
fi
HF_HUB_OFFLINE=1 "$venv/bin/python" -m pytest tests/lerobot "$@"
