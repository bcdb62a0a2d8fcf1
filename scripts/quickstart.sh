#!/usr/bin/env bash
# From a fresh clone to an accuracy table and a figure; arguments are passed on as overrides.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/zoology-bench run experiment=quickstart "$@"
