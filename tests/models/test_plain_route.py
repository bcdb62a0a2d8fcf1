"""The baseline of scripts/bench_train.py computes what the model computes."""

import pytest
import torch
import torch.nn.functional as F

from tests.models.plain_route import plain_loss, plain_optimizer
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base import MixerConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.tasks.mqar import MQAR


@pytest.mark.parametrize("mixer", [AttentionConfig(), BaseConvConfig()], ids=lambda m: m.name)
def test_losses_and_gradients_agree(mixer: MixerConfig) -> None:
    task = MQAR(vocab_size=64, seq_len=32, n_kv_pairs=4, layout="official")
    batch = task.rows("train", 0, 0, 8)
    config = LanguageModelConfig(vocab_size=64, seq_len=32, d_model=16, mixer=mixer)
    model = config.build(torch.Generator().manual_seed(0)).double()
    logits = model(batch.inputs, batch.query_pos)
    fast = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
    plain = plain_loss(model, batch)
    assert torch.allclose(fast, plain, atol=1e-12)
    names, parameters = zip(*model.named_parameters(), strict=True)
    pairs = zip(
        names,
        torch.autograd.grad(fast, parameters),
        torch.autograd.grad(plain, parameters),
        strict=True,
    )
    assert [name for name, a, b in pairs if not torch.allclose(a, b, atol=1e-12)] == []


def test_the_plain_optimizer_is_neither_fused_nor_batched() -> None:
    config = LanguageModelConfig(vocab_size=8, seq_len=4, d_model=4, mixer=AttentionConfig())
    optimizer = plain_optimizer(config.build(torch.Generator()), lr=1e-3)
    assert not optimizer.defaults["fused"] and not optimizer.defaults["foreach"]
