"""A diagonal state-space model as a convolution filter (S4D, arXiv:2206.11893).

Letters: B batch, T time, D d_model, N state size (N / 2 complex numbers and their conjugates).
"""

import math

import torch
from torch import Tensor, nn

MIN_STEP, MAX_STEP = 1e-3, 1e-1
"""Range of the step sizes at the start, drawn log-uniformly."""


class DiagonalSSM(nn.Module):
    """``s' = A s + u, y = 2 Re(C s)`` per channel, discretised by zero-order hold.

    A is complex and diagonal with a negative real part, so that no state grows.
    """

    def __init__(self, d_model: int, d_state: int) -> None:
        super().__init__()
        n = d_state // 2
        self.log_step = nn.Parameter(torch.empty(d_model))
        self.log_decay = nn.Parameter(torch.empty(d_model, n))
        self.frequency = nn.Parameter(torch.empty(d_model, n))
        self.readout = nn.Parameter(torch.empty(d_model, n, 2))

    def forward(self, length: int) -> Tensor:
        """(D, length) weights by lag: 2 Re sum_n C_n B_n exp(step A_n)^lag."""
        log_ratio, gain = self._discrete()
        lag = torch.arange(length, device=log_ratio.device, dtype=self.log_step.dtype)
        powers = torch.exp(log_ratio[..., None] * lag)
        weights = torch.view_as_complex(self.readout) * gain
        return 2 * torch.einsum("dn,dnt->dt", weights, powers).real

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One token (B, D) through the recurrence; state is (B, D, N/2) complex."""
        log_ratio, gain = self._discrete()
        state = torch.exp(log_ratio) * state + gain * u[..., None]
        return 2 * (torch.view_as_complex(self.readout) * state).sum(-1).real, state

    def init_state(self, batch_size: int) -> Tensor:
        """The state before the first token."""
        zeros = self.readout.new_zeros(batch_size, *self.readout.shape)
        return torch.view_as_complex(zeros)

    def state_bytes(self) -> int:
        """N real numbers per channel, whatever the length."""
        return self.readout.numel() * self.readout.element_size()

    def init_(self, generator: torch.Generator) -> None:
        """S4D-Lin: A_n = -1/2 + i pi n, C complex normal."""
        low, high = math.log(MIN_STEP), math.log(MAX_STEP)
        nn.init.uniform_(self.log_step, low, high, generator=generator)
        nn.init.constant_(self.log_decay, math.log(0.5))
        with torch.no_grad():
            n = torch.arange(self.frequency.shape[1], dtype=self.frequency.dtype)
            self.frequency.copy_(math.pi * n.expand_as(self.frequency))
        nn.init.normal_(self.readout, std=0.5**0.5, generator=generator)

    def init_as_sum_(self, seq_len: int, generator: torch.Generator) -> None:
        """Close to the running sum of what came before, seq_len^-1/2 at every lag below seq_len."""
        self.init_(generator)
        nn.init.constant_(self.log_step, math.log(1 / seq_len))
        # exp(-t / (2 seq_len)) from the state without rotation; the others start faint.
        nn.init.normal_(self.readout, std=0.01, generator=generator)
        with torch.no_grad():
            self.readout[:, 0, 0] = seq_len**0.5 / 2

    def _discrete(self) -> tuple[Tensor, Tensor]:
        """log of the state's ratio from step to step, and what an input adds: (D, N/2) each."""
        a = torch.complex(-torch.exp(self.log_decay), self.frequency)
        log_ratio = a * torch.exp(self.log_step)[:, None]
        return log_ratio, torch.expm1(log_ratio) / a
