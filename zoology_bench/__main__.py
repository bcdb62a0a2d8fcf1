"""``python -m zoology_bench``."""

from zoology_bench.cli import main

raise SystemExit(main())
