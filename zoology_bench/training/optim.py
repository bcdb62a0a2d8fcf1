"""AdamW with its parameter groups, and the learning rate as a function of the step."""

import math

import torch
from torch import nn

from zoology_bench.training.config import TrainerConfig

_FUSED_DEVICES = ("cpu", "cuda")
_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)


def lr_at(
    step: int, *, peak: float, warmup_steps: int, total_steps: int, final_fraction: float
) -> float:
    """Learning rate of a step: linear warm-up, then one cosine per run, evaluated at every step.

    The warm-up reaches ``peak`` at its last step; the cosine falls from there to
    ``final_fraction * peak`` at the last step of the budget. It is slow on purpose: it spans the
    whole budget, so a model that leaves its plateau late still meets a useful rate, and a run
    that stops early at its threshold has hardly left the peak. Time limits do not enter, so a
    resumed run sees the same rates.

    Args:
        step: 0 for the first update.
        peak: the largest rate.
        warmup_steps: steps of the warm-up, 0 for none.
        total_steps: steps of the budget.
        final_fraction: rate of the last step over the peak.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    n_cosine = max(1, total_steps - 1 - warmup_steps)
    progress = min(1.0, (step - warmup_steps) / n_cosine)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return peak * (final_fraction + (1 - final_fraction) * cosine)


def undecayed_names(model: nn.Module) -> set[str]:
    """Names of the parameters that weight decay should leave alone.

    Norms, embeddings (also where an output layer is tied to one), biases and other vectors, and
    every parameter that says so itself by an attribute ``no_weight_decay = True``.
    """
    exempt = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, (nn.Embedding, *_NORMS))
        for parameter in module.parameters(recurse=False)
    }
    return {
        name
        for name, parameter in model.named_parameters()
        if id(parameter) in exempt
        or parameter.ndim < 2
        or name.endswith("bias")
        or getattr(parameter, "no_weight_decay", False)
    }


def build_optimizer(model: nn.Module, config: TrainerConfig, lr: float) -> torch.optim.AdamW:
    """AdamW over every parameter that wants a gradient, fused where the device has it.

    Args:
        model: already on its device.
        config: betas, weight decay and what it applies to.
        lr: peak rate; the loop sets each step's own.
    """
    spared = set() if config.decay_everything else undecayed_names(model)
    trainable = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    decayed = [p for n, p in trainable if n not in spared]
    undecayed = [p for n, p in trainable if n in spared]
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    fused = all(p.device.type in _FUSED_DEVICES for _, p in trainable)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=lr,
        betas=(config.betas[0], config.betas[1]),
        fused=fused,
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Give every group the rate of the coming step."""
    for group in optimizer.param_groups:
        group["lr"] = lr
