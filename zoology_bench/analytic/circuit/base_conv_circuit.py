"""The circuit of Theorem 4.4 as a model: tokens in, answers out, nothing trained.

Letters: B batch, T seq_len, Q queries, D width, L rows of the circuit.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from zoology_bench.analytic.base import AnalyticConfig, AnalyticModel, Size
from zoology_bench.analytic.circuit.compiler import ROUTES, Circuit, compile_circuit
from zoology_bench.analytic.circuit.layer import (
    Convolution,
    base_conv,
    causal_shifts,
    cyclic_shifts,
)
from zoology_bench.analytic.circuit.plan import ceil_log2
from zoology_bench.analytic.circuit.program import PlacedLayer
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.param_count import ParamCount
from zoology_bench.validation import check_int, check_name

VARIANTS = ("padded", "cyclic")
CHUNK_BYTES = 16 << 20
"""Size of the (rows, D, L) state of a chunk, of which a layer holds about six."""


@dataclass(kw_only=True, slots=True)
class BaseConvCircuitConfig(AnalyticConfig):
    """Configuration of the circuit; it learns nothing."""

    name: ClassVar[str] = "base_conv_circuit"

    variant: str = "padded"
    """padded: causal convolutions, answers in zero rows below the tokens; cyclic: in place."""
    route: str = "swaps"
    """How answers go back to their queries: swaps (kept swap bits) or sort (a second sort)."""

    def __post_init__(self) -> None:
        check_name("model.variant", self.variant, VARIANTS)
        check_name("model.route", self.route, ROUTES)

    @property
    def label(self) -> str:
        """What tables and figures show."""
        return f"{self.name}_{self.variant}_{self.route}"

    @property
    def causal(self) -> bool:
        """False in both variants: no answer is there yet in the row of its query."""
        return False

    def check_layout(self, layout: PublicLayout) -> None:
        """Raise ``ValueError`` unless rows are key, value, query, key, value, query, ..."""
        if layout.name != "triples":
            raise ValueError(
                f"task.layout={layout.name} does not fit model={self.name}: it needs triples"
            )
        check_int("task.seq_len", layout.seq_len, 6)

    def build(self, layout: PublicLayout) -> "AnalyticCircuit":
        self.check_layout(layout)
        circuit = BaseConvCircuit(
            n_triples=layout.seq_len // 3,
            vocab_size=layout.vocabulary.size,
            causal=self.variant == "padded",
            route=self.route,
            absent=layout.vocabulary.absent,
        )
        return AnalyticCircuit(layout, circuit)


class BaseConvCircuit:
    """Multi-query recall by BaseConv layers that never look at their input: exact, all inputs.

    Token i of a row is a key, value or query as i mod 3 is 0, 1, 2; a query is answered by the last
    earlier triple with that key. Every layer is ``base_conv``; parameters are written by
    ``compile_circuit`` and made dense for one layer at a time.

    With causal convolutions the answer of the query in row r is read in row r + ``offset``, below
    all tokens: the answers depend on earlier triples only, but no row-causal circuit of
    polylogarithmic size can give them in place (docs/theorem_4_4.md). So ``causal``, what a result
    row says of the model, is False in both variants.

    Args:
        n_triples: n >= 2, for rows of 3n tokens.
        vocab_size: tokens are 0..vocab_size - 1.
        causal: causal convolutions over zero-padded rows; otherwise cyclic ones, in place.
        route: swaps or sort.
        clean: pull bits back to 0 and 1 after each stage, for convolutions that round.
        absent: the answer where nothing matches; None: -1.

    Raises:
        ValueError: a size below 2 or an unknown route.
    """

    def __init__(
        self,
        n_triples: int = 8,
        vocab_size: int = 64,
        causal: bool = True,
        route: str = "swaps",
        *,
        clean: bool = False,
        absent: int | None = None,
    ) -> None:
        check_int("n_triples", n_triples, 2)
        check_int("vocab_size", vocab_size, 2)
        check_name("model.route", route, ROUTES)
        self.vocab_size = vocab_size
        self.nothing = -1 if absent is None else absent
        self.convolve: Convolution = causal_shifts if causal else cyclic_shifts
        """How layers convolve; only shifts are exact in every dtype."""
        self.circuit: Circuit = compile_circuit(
            n_triples, ceil_log2(vocab_size), padded=causal, route=route, clean=clean
        )

    @property
    def causal(self) -> bool:
        """False: an answer stands below its query, or convolutions are cyclic."""
        return False

    @property
    def d_model(self) -> int:
        """Width of every layer."""
        return self.circuit.program.width

    @property
    def n_layers(self) -> int:
        """Depth."""
        return self.circuit.program.n_layers

    @property
    def n_rows(self) -> int:
        """Rows of the circuit, zero rows included."""
        return self.circuit.program.n_rows

    def n_params(self) -> ParamCount:
        """Entries of W, h, b1 and b2 of all layers; none of them is trained."""
        total = self.circuit.program.n_params
        return ParamCount(total=total, non_embedding=total, mixer=total)

    def predict(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Answers to all queries of ``tokens`` (B, 3n), (B, n); nothing is -1 or ``absent``.

        Args:
            tokens: (B, 3n) integers.
            positions: (B, Q) positions to read instead, (B, Q) answers; nothing is asked, and so
                nothing found, where no query stands.

        Raises:
            ValueError: rows of another length, or tokens outside the vocabulary.
        """
        self._check(tokens)
        n_rows = max(1, CHUNK_BYTES // (4 * self.d_model * self.n_rows))
        answers = torch.cat([self._answers(part) for part in tokens.split(n_rows)])
        if positions is None:
            return answers
        everywhere = torch.full_like(tokens, self.nothing)
        everywhere[:, 2::3] = answers
        return everywhere.gather(1, positions)

    def states(
        self, tokens: Tensor, dtype: torch.dtype = torch.float32
    ) -> Iterator[tuple[PlacedLayer, Tensor]]:
        """Each layer with its output (B, D, L); values stay in {-1, 0, 1, 2}, exact in any dtype.

        Args:
            tokens: (B, 3n) integers.
            dtype: of the state and the parameters.
        """
        program = self.circuit.program
        state = self._encode(tokens, dtype)
        for layer in program.layers:
            state = base_conv(state, program.dense(layer).to(state), self.convolve)
            yield layer, state

    def read_out(self, state: Tensor) -> Tensor:
        """(B, 1 + b, n): hit and value bits, most significant first, in the answers' rows."""
        bits = state[:, list(self.circuit.answer_slots)]
        return bits[..., list(self.circuit.answer_rows)]

    def _answers(self, tokens: Tensor) -> Tensor:
        # One state at a time: unpacking would keep those of all layers.
        ((_, state),) = deque(self.states(tokens), maxlen=1)
        # Each bit is rounded by itself: errors of a convolution that rounds would add up in a sum.
        hit, *bits = (self.read_out(state) > 0.5).unbind(1)
        value = torch.zeros_like(hit, dtype=torch.int64)
        for bit in bits:
            value = 2 * value + bit
        return torch.where(hit, value, self.nothing)

    def _encode(self, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        """(B, D, L): the tokens' bits in the first columns and rows, zeros elsewhere."""
        n_bits = self.circuit.n_bits
        state = torch.zeros(len(tokens), self.d_model, self.n_rows, dtype=dtype)
        for slot in range(n_bits):
            bit = tokens >> (n_bits - 1 - slot) & 1
            state[:, slot, : tokens.shape[1]] = bit.to(dtype)
        return state.to(tokens.device)

    def _check(self, tokens: Tensor) -> None:
        length = self.circuit.plan.seq_len
        if tokens.ndim != 2 or tokens.shape[1] != length:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}; expected (B, 3 n_triples = {length})"
            )
        low, high = tokens.aminmax()
        if low < 0 or high >= self.vocab_size:
            raise ValueError(
                f"tokens span {int(low)}..{int(high)}, outside vocab_size={self.vocab_size}"
            )


class AnalyticCircuit(AnalyticModel):
    """A circuit bound to a layout of triples; answers every query, absent ones included."""

    def __init__(self, layout: PublicLayout, circuit: BaseConvCircuit) -> None:
        super().__init__(layout)
        self.circuit = circuit

    @property
    def causal(self) -> bool:
        return self.circuit.causal

    @property
    def d_model(self) -> int:
        """Width of every layer."""
        return self.circuit.d_model

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.circuit.predict(tokens, positions)

    def covered(self, batch: Batch) -> Tensor:
        return torch.ones_like(batch.query_pos, dtype=torch.bool)

    def size(self) -> Size:
        circuit = self.circuit
        return Size(
            depth=circuit.n_layers, width=circuit.d_model, n_params=circuit.n_params().total
        )
