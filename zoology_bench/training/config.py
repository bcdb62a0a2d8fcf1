"""How a model is trained: the numbers of a run, checked once."""

import math
from dataclasses import dataclass, field

from zoology_bench.validation import check_fraction, check_int, check_name

PRECISIONS = ("fp32", "bf16")


@dataclass(kw_only=True, slots=True)
class TrainerConfig:
    """Budget, optimiser and evaluation of one run.

    The defaults are the recipe of this suite: AdamW with betas (.9, .95), clipping at norm 1,
    20 warm-up steps and one cosine per run (see ``optim.lr_at``).
    """

    batch_size: int = 32
    """Rows per optimiser step."""
    max_steps: int = 1000
    """Optimiser steps at most; also the length of the cosine."""
    max_seconds: float | None = None
    """Seconds of training at most (evaluation and checkpoints excluded); None = no limit."""
    eval_every: int = 20
    """Steps between evaluations on the select split."""
    n_select_rows: int = 500
    """Rows of the select split: stopping and learning rates are decided on them."""
    n_report_rows: int = 1000
    """Rows of the report split: looked at once, after training."""
    eval_batch_rows: int = 250
    """Rows per forward pass of an evaluation."""
    stop_at: float | None = None
    """Stop once the accuracy on select reaches this; None = use the whole budget."""
    lr: float | None = None
    """Peak learning rate; None = the mixer's own."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    """AdamW's decay rates of the first and second moment."""
    weight_decay: float = 0.1
    """AdamW's decoupled weight decay, in units of the learning rate."""
    decay_everything: bool = False
    """Decay norms, biases and embeddings too (as published presets do)."""
    clip_norm: float | None = 1.0
    """Largest norm of the gradient; None = no clipping."""
    warmup_steps: int = 20
    """Steps of linear warm-up."""
    final_lr_fraction: float = 0.1
    """Learning rate of the last step, as a fraction of the peak."""
    precision: str = "fp32"
    """fp32, or bf16 for autocast of the forward pass (weights stay fp32)."""
    compile: bool = False
    """Train through torch.compile; evaluation always runs the plain module."""
    checkpoint_every: int = 200
    """Steps between checkpoints; 0 = only at the end."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_steps", "eval_every", "eval_batch_rows"):
            check_int(f"trainer.{name}", getattr(self, name), 1)
        # One row has no between-row variance, so no standard error.
        for name in ("n_select_rows", "n_report_rows"):
            check_int(f"trainer.{name}", getattr(self, name), 2)
        for name in ("warmup_steps", "checkpoint_every"):
            check_int(f"trainer.{name}", getattr(self, name), 0)
        for name in ("max_seconds", "lr", "clip_norm"):
            _check_positive(f"trainer.{name}", getattr(self, name))
        for name in ("stop_at", "final_lr_fraction"):
            if getattr(self, name) is not None:
                check_fraction(f"trainer.{name}", getattr(self, name))
        if len(self.betas) != 2:
            raise ValueError(f"trainer.betas={self.betas} must be two numbers")
        for beta in self.betas:
            check_fraction("trainer.betas", beta, upper_open=True)
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(
                f"trainer.weight_decay={self.weight_decay} must not be negative or infinite"
            )
        check_name("trainer.precision", self.precision, PRECISIONS)


def _check_positive(field_name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"{field_name}={value} must be positive and finite")
