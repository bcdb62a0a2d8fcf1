#!/usr/bin/env bash
# Everything CI checks, from a fresh clone: lint, format, types, import contracts, tests.
# bash scripts/test.sh [pytest arguments]; the long checks: bash scripts/test.sh -m "slow"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh dev
export PATH="$PWD/.venv/bin:$PATH" TQDM_DISABLE=1 WANDB_MODE=offline OMP_NUM_THREADS=1
ruff check .
ruff format --check .
basedpyright
lint-imports
if [ $# -eq 0 ]; then
  set -- -m "not gpu and not slow"
fi
exec python -m pytest -n "${PYTEST_WORKERS:-2}" "$@"
