"""Matrix memories: how they are written, and what a read-out is expected to miss.

A memory S (d_v, d_k) is written with pairs (k, v) and read with ``S k``. Keys here are unit vectors
and values one-hot, hence orthonormal.
Letters: B batch, K pairs written, d = d_k key dimension.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def write_linear(state: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Linear attention: ``S + v k^T``.

    Args:
        state: (B, d_v, d_k).
        key: (B, d_k).
        value: (B, d_v).
    """
    return state + value[..., None] * key[..., None, :]


def write_delta(state: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The delta rule: ``S + (v - S k) k^T``, so that ``S k = v`` right after; shapes as above."""
    return write_linear(state, key, value - torch.einsum("bvk,bk->bv", state, key))


WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear_attention": write_linear,
    "delta_rule": write_delta,
}
"""Every rule by name."""


def key_table(n_keys: int, d_key: int, kind: str, generator: torch.Generator) -> Tensor:
    """(n_keys, d_key) unit vectors.

    Args:
        n_keys: rows.
        d_key: columns.
        kind: orthonormal: the standard basis for the first d_key keys, then one random orthonormal
            basis after the other; random: uniform on the sphere.
        generator: draws what is random.
    """
    if kind == "random":
        rows = torch.randn(n_keys, d_key, dtype=torch.float64, generator=generator)
        return (rows / rows.norm(dim=1, keepdim=True)).float()
    bases = [torch.eye(d_key)]
    while len(bases) * d_key < n_keys:
        gaussian = torch.randn(d_key, d_key, dtype=torch.float64, generator=generator)
        bases.append(torch.linalg.qr(gaussian).Q.float())
    return torch.cat(bases)[:n_keys]


def linear_error(n_pairs: int, d_key: int) -> float:
    """E |S k - v|^2 of linear attention with K random keys, averaged over the keys: (K - 1) / d.

    ``S k_a - v_a = sum over b != a of v_b <k_b, k_a>``, the values are orthonormal, and
    E <k_b, k_a>^2 = 1 / d for keys that are uniform on the sphere.
    """
    return (n_pairs - 1) / d_key


def delta_error(n_pairs: int, d_key: int) -> float:
    """E |S k - v|^2 of the delta rule with K random keys, averaged over the keys.

    Right after its own write a key's error e is 0. The next write, of (k', v') with c = <k', k>,
    adds ``c (v' - S k')``. Values are orthonormal, E k' k'^T = I / d and
    E c^2 k' k'^T = (I + 2 k k^T) / (d (d + 2)), so with A = E |e|^2, B = E <e, v> and
    F = E |S|_F^2 each further write maps

        A <- A - 2 (A + B) / d + (F + 2 (A + 2 B + 1)) / (d (d + 2)) + 1 / d
        B <- B - (B + 1) / d
        F <- F (1 - 1 / d) + 1

    where F depends on the number of writes alone. Exact, not asymptotic.
    """
    decay = 1 - 1 / d_key
    total = 0.0
    for written in range(1, n_pairs + 1):
        a = b = 0.0
        frobenius = d_key * (1 - decay**written)
        for _ in range(n_pairs - written):
            stale = (frobenius + 2 * (a + 2 * b + 1)) / (d_key * (d_key + 2))
            a, b = a - 2 * (a + b) / d_key + stale + 1 / d_key, b - (b + 1) / d_key
            frobenius = frobenius * decay + 1
        total += a
    return total / n_pairs


ERRORS: dict[str, Callable[[int, int], float]] = {
    "linear_attention": linear_error,
    "delta_rule": delta_error,
}
"""The closed form of every rule."""


def measured_error(rule: str, keys: Tensor) -> tuple[float, float]:
    """Mean |S k - v|^2 after all writes, and the share that argmax still recalls.

    Args:
        rule: one of ``WRITES``.
        keys: (B, K, d_k), written in order with the unit vectors of R^K as values.
    """
    n_examples, n_pairs, d_key = keys.shape
    values = torch.eye(n_pairs, dtype=keys.dtype)
    state = keys.new_zeros(n_examples, n_pairs, d_key)
    for i in range(n_pairs):
        state = WRITES[rule](state, keys[:, i], values[i].expand(n_examples, -1))
    read = torch.einsum("bvk,bnk->bnv", state, keys)
    recalled = read.argmax(-1) == torch.arange(n_pairs)
    return (read - values).square().sum(-1).mean().item(), recalled.double().mean().item()
