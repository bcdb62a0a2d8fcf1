"""Training runs for a process that its parent kills: a toy's, and the command line's."""

import sys
from pathlib import Path

import torch

from tests.command import zoology
from tests.training.toy import run_in
from zoology_bench.training.config import TrainerConfig

N_STEPS = 500
EVAL_EVERY = 4
COMMAND = ["task=mqar_small_32_4", "model=base_conv", "model.d_model=16", "keep_checkpoint=true"]
COMMAND += ["trainer.max_steps=120", f"trainer.eval_every={EVAL_EVERY}"]
# More steps than between two lines, so that lines are logged which the checkpoint knows nothing of.
COMMAND += ["trainer.checkpoint_every=7", "trainer.n_select_rows=16", "trainer.n_report_rows=64"]


def run(run_dir: Path) -> None:
    """Train, or go on training, in ``run_dir``; leave the weights and the curve there."""
    torch.set_num_threads(1)
    # A checkpoint per step, so that many of the kills land inside one.
    config = TrainerConfig(max_steps=N_STEPS, eval_every=EVAL_EVERY, checkpoint_every=1)
    model, result = run_in(run_dir, config)
    torch.save(model.state_dict(), run_dir / "weights.pt")
    (run_dir / "history.txt").write_text(repr((result.history, result.steps, result.examples)))


def run_command(folder: Path) -> None:
    """``zoology-bench run`` of a tiny model from ``folder``; exits as the command does."""
    done = zoology("run", *COMMAND, cwd=folder)
    sys.exit(done.stderr or done.returncode)
