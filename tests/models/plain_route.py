"""The training step as it is usually written: the baseline of scripts/bench_train.py.

Logits at every position, the attention matrix materialised, norms and filters spelled out, AdamW
neither fused nor batched over tensors. It computes with the parameters of a LanguageModel, so that
losses and gradients can be compared one by one.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoology_bench.data.batch import IGNORE, Batch
from zoology_bench.mixers.attention import Attention
from zoology_bench.mixers.base_conv import BaseConv
from zoology_bench.models.block import Block
from zoology_bench.models.lm import LanguageModel


def plain_loss(model: LanguageModel, batch: Batch) -> Tensor:
    """Mean cross entropy over the labelled positions, through logits (B, T, V)."""
    x = model.embedding(batch.inputs)
    if model.positions is not None:
        x = x + model.positions(torch.arange(batch.inputs.shape[1]))
    for block in model.blocks:
        assert isinstance(block, Block)
        x = x + _mix(block.mixer, _rms_norm(block.mixer_norm, x))
    logits = _rms_norm(model.final_norm, x) @ model.embedding.weight.T
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)


def plain_optimizer(model: nn.Module, lr: float) -> torch.optim.AdamW:
    """AdamW tensor by tensor."""
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), foreach=False)


def _rms_norm(norm: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(norm, nn.RMSNorm) and norm.eps is not None
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.eps) * norm.weight


def _mix(mixer: nn.Module, x: Tensor) -> Tensor:
    if isinstance(mixer, Attention):
        return _attention(mixer, x)
    assert isinstance(mixer, BaseConv)
    conv = _long_conv(x.transpose(1, 2), mixer.filter(x.shape[1])).transpose(1, 2)
    return mixer.gate(x) * (conv + mixer.conv_bias)


def _attention(mixer: Attention, x: Tensor) -> Tensor:
    n_rows, length, width = x.shape
    q, k, v = (
        w(x).view(n_rows, length, mixer.n_heads, -1).transpose(1, 2)
        for w in (mixer.w_q, mixer.w_k, mixer.w_v)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return mixer.w_o((weights @ v).transpose(1, 2).reshape(n_rows, length, width))


def _long_conv(x: Tensor, h: Tensor) -> Tensor:
    n = 2 * x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(h, n=n), n=n)[..., : n // 2]
