#!/usr/bin/env bash
# Make .venv ready: bash scripts/setup.sh [EXTRA]; EXTRA is an optional-dependency group such as dev.
# Installs the versions of constraints.txt and nothing when they are installed already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra=${1:-}

find_python() {
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: no Python 3.11, 3.12 or 3.13 found; set PYTHON=/path/to/python" >&2
  exit 2
}

# On Linux the package index serves the CUDA build of torch, gigabytes that a laptop cannot use:
# without an NVIDIA driver take a CPU build, from local wheels first, then from PyTorch's own index.
install_torch() {
  torch=$(grep -E '^torch==' constraints.txt)
  if [ "$(uname -s)" != Linux ] || command -v nvidia-smi >/dev/null 2>&1; then
    return
  fi
  if .venv/bin/python -m pip install -q --no-index --no-deps "$torch" 2>/dev/null; then
    return
  fi
  if .venv/bin/python -m pip install -q --no-deps --retries 0 --timeout 15 \
    --index-url https://download.pytorch.org/whl/cpu "$torch" 2>/dev/null; then
    return
  fi
  echo "setup: no CPU build of $torch at hand; installing the default build (CUDA, several GB)" >&2
}

stamp=.venv/.zoology-setup
wanted=$(cat constraints.txt pyproject.toml scripts/setup.sh | cksum)
if [ -f "$stamp" ] && grep -qxF "$wanted $extra" "$stamp"; then
  exit 0
fi
if [ ! -x .venv/bin/python ]; then
  python=$(find_python)
  "$python" -m venv .venv
fi
if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
  install_torch
fi
echo "setup: installing into .venv (minutes the first time)" >&2
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt \
  -e ".${extra:+[$extra]}"
if ! grep -qF "$wanted " "$stamp" 2>/dev/null; then
  : >"$stamp"
fi
echo "$wanted $extra" >>"$stamp"
