"""A training run for a process that its parent kills."""

from pathlib import Path

import torch

from tests.training.toy import run_in
from zoology_bench.training.config import TrainerConfig

N_STEPS = 500
EVAL_EVERY = 4


def run(run_dir: Path) -> None:
    """Train, or go on training, in ``run_dir``; leave the weights and the curve there."""
    torch.set_num_threads(1)
    # A checkpoint per step, so that many of the kills land inside one.
    config = TrainerConfig(max_steps=N_STEPS, eval_every=EVAL_EVERY, checkpoint_every=1)
    model, result = run_in(run_dir, config)
    torch.save(model.state_dict(), run_dir / "weights.pt")
    (run_dir / "history.txt").write_text(repr((result.history, result.steps, result.examples)))
