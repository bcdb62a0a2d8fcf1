"""Sizes of the circuit of Theorem 4.4 as formulas; the compiled program must agree.

Letters: n triples, b bits a token, t = ceil(log2 2n) bits of time, w = b + t bits compared,
S = t (t + 1) / 2 stages. L = O(log^2 n (log b + log log n)) and d = O(b + log^2 n) by kept swaps,
O(b + log n) by a second sort; rows < 9N, so that L (d^2 + 3 rows d) = O~(N log c) parameters.
"""

from dataclasses import dataclass

from zoology_bench.analytic.circuit.plan import ceil_log2


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a compiled circuit measures."""

    n_layers: int
    width: int
    n_rows: int

    @property
    def n_params(self) -> int:
        """Entries of W, h, b1 and b2 of every layer."""
        return self.n_layers * (self.width**2 + 3 * self.n_rows * self.width)


def circuit_sizes(n_triples: int, n_bits: int, *, padded: bool, route: str) -> Sizes:
    """The sizes of ``compile_circuit`` (clean=False), without compiling.

    Args:
        n_triples: n >= 2.
        n_bits: b >= 1.
        padded: as in ``compile_circuit``.
        route: as in ``compile_circuit``.
    """
    t = ceil_log2(2 * n_triples)
    w = n_bits + t
    n_stages = t * (t + 1) // 2
    common = 2 * (t - 1) + ceil_log2(n_bits + 1) + 5
    if route == "swaps":
        n_layers = n_stages * (6 + ceil_log2(w)) + common
        n_kept = n_stages - 1
    else:
        n_layers = n_stages * (8 + ceil_log2(w) + ceil_log2(t)) + common + 1
        n_kept = 0
    seq_len = 3 * n_triples
    if padded:
        n_rows = seq_len + 2 * (3 * 2**t - t - 4)
    else:
        # The longest step of the scan, 2^(t-2) records, in rows.
        n_rows = seq_len + (1 if t == 2 else 3 * 2 ** (t - 3))
    return Sizes(n_layers, 3 * (w + n_bits) + 3 + n_kept, n_rows)
