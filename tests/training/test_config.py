import math
import re

import pytest
from omegaconf import OmegaConf

from zoology_bench.training.config import TrainerConfig


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("batch_size", 0, "trainer.batch_size=0 must be at least 1"),
        ("max_steps", -1, "trainer.max_steps=-1 must be at least 1"),
        ("max_steps", 2.5, "trainer.max_steps=2.5 must be an integer"),
        ("max_seconds", 0, "trainer.max_seconds=0 must be positive and finite"),
        ("eval_every", 0, "trainer.eval_every=0 must be at least 1"),
        ("n_select_rows", 1, "trainer.n_select_rows=1 must be at least 2"),
        ("n_report_rows", 0, "trainer.n_report_rows=0 must be at least 2"),
        ("eval_batch_rows", 0, "trainer.eval_batch_rows=0 must be at least 1"),
        ("stop_at", 1.5, "trainer.stop_at=1.5 must lie in [0, 1]"),
        ("lr", 0.0, "trainer.lr=0.0 must be positive and finite"),
        ("lr", math.inf, "trainer.lr=inf must be positive and finite"),
        ("betas", [0.9], "trainer.betas=[0.9] must be two numbers"),
        ("betas", [0.9, 1.0], "trainer.betas=1.0 must lie in [0, 1)"),
        ("weight_decay", -0.1, "trainer.weight_decay=-0.1 must not be negative"),
        ("clip_norm", math.nan, "trainer.clip_norm=nan must be positive and finite"),
        ("warmup_steps", -1, "trainer.warmup_steps=-1 must be at least 0"),
        ("final_lr_fraction", 2.0, "trainer.final_lr_fraction=2.0 must lie in [0, 1]"),
        ("precision", "fp23", "trainer.precision='fp23' is unknown; did you mean 'fp32'?"),
        ("checkpoint_every", -1, "trainer.checkpoint_every=-1 must be at least 0"),
    ],
    ids=lambda value: str(value).removeprefix("trainer.").split("=")[0],
)
def test_bad_value_is_one_line_that_names_the_field(field, value, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        TrainerConfig(**{field: value})
    assert "\n" not in str(caught.value)


def test_survives_omegaconf_with_types_checked():
    schema = OmegaConf.structured(TrainerConfig)
    merged = OmegaConf.merge(schema, {"max_seconds": 5, "betas": [0.8, 0.99], "clip_norm": None})
    config = OmegaConf.to_object(merged)
    assert config == TrainerConfig(max_seconds=5.0, betas=[0.8, 0.99], clip_norm=None)


def test_typo_is_not_a_new_attribute():
    with pytest.raises(AttributeError):
        TrainerConfig().max_step = 3  # type: ignore[attr-defined]
