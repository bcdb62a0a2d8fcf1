"""Exit codes of the command line."""

DONE = 0
FAILED = 1
"""A run or a check failed."""
WRONG_INPUT = 2
"""One line on stderr says which."""
INTERRUPTED = 130
