"""zoology-bench: synthetic associative recall, exact tasks, honest statistics.

Importing this package is cheap: torch, triton, wandb and matplotlib are imported where used.
"""

__version__ = "0.1.0"
