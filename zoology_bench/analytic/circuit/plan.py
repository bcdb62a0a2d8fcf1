"""Where the records of a circuit stand: their rows, the sort's stages, the drift, the padding.

Triple i (key, value, query at rows 3i, 3i + 1, 3i + 2) makes two records: its key with its value
at row 3i + 1 and its query at row 3i + 2. Row 3i stays zero.
"""

from dataclasses import dataclass
from functools import cached_property

from zoology_bench.analytic.circuit.sorting import odd_even_merge_sort


def ceil_log2(number: int) -> int:
    """The smallest e with 2^e >= number."""
    return (number - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Stage:
    """Comparators between records that stand ``span`` rows apart."""

    span: int
    earlier: tuple[int, ...]
    """Home rows of the upper records."""
    later: tuple[int, ...]
    """Home rows of the lower records."""


@dataclass(frozen=True)
class Plan:
    """Rows of a circuit for ``n_triples`` triples, padded (causal convolutions) or cyclic."""

    n_triples: int
    padded: bool

    @property
    def seq_len(self) -> int:
        """Tokens, N."""
        return 3 * self.n_triples

    @property
    def time_bits(self) -> int:
        """t: bits that number 2n records."""
        return ceil_log2(2 * self.n_triples)

    @cached_property
    def key_rows(self) -> tuple[int, ...]:
        """Home row of every triple's key record."""
        return tuple(3 * i + 1 for i in range(self.n_triples))

    @cached_property
    def query_rows(self) -> tuple[int, ...]:
        """Home row of every triple's query record."""
        return tuple(3 * i + 2 for i in range(self.n_triples))

    @cached_property
    def record_rows(self) -> tuple[int, ...]:
        """Home row of record j: key records are even, query records odd."""
        return tuple(sorted(self.key_rows + self.query_rows))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The sorting network between rows; one span a stage is what makes a stage cheap.

        Record distance 2m is 3m rows; the distance 1 is 1 row from a key record to a query record
        (all pairs of the first stage) and 2 rows from a query record (all others).
        """
        rows = self.record_rows
        stages = []
        for pairs in odd_even_merge_sort(len(rows)):
            earlier = tuple(rows[i] for i, _ in pairs)
            later = tuple(rows[j] for _, j in pairs)
            spans = {low - high for high, low in zip(earlier, later, strict=True)}
            assert len(spans) == 1, f"comparators of one stage span {spans} rows"
            stages.append(Stage(spans.pop(), earlier, later))
        return tuple(stages)

    def drift(self, stage: int) -> int:
        """Rows that every record moves down in a stage.

        A record must see its partner below, which a causal convolution allows only if it moves
        to the partner's row or beyond.
        """
        return self.stages[stage].span if self.padded else 0

    def drift_before(self, stage: int) -> int:
        """Rows that every record has moved before a stage of the sort."""
        return sum(map(self.drift, range(stage)))

    @property
    def sort_drift(self) -> int:
        """Rows that every record moves in the whole sort."""
        return self.drift_before(len(self.stages))

    @property
    def offset(self) -> int:
        """Rows between a query and its answer: the way there and the way back."""
        return 2 * self.sort_drift

    def scan_shifts(self, distance: int) -> tuple[int, ...]:
        """Rows between records that are ``distance`` apart.

        At distance 1 they are 1 or 2; the wrong one leads to the zero row of a triple.
        """
        return (1, 2) if distance == 1 else (3 * distance // 2,)

    @property
    def scan_distances(self) -> tuple[int, ...]:
        """1, 2, 4, ..: distances whose subsets sum to every number up to n - 1.

        Between a query and its key in sorted order stand only queries of that token: n - 2 at most.
        """
        return tuple(1 << step for step in range(ceil_log2(self.n_triples)))

    @property
    def n_rows(self) -> int:
        """Rows of the circuit: tokens, then zero rows to move into or against the wrap-around.

        A cyclic scan looks only up, but from the first rows that is the last ones; as many zero
        rows as its longest step stand between.
        """
        if self.padded:
            return self.seq_len + self.offset
        rows = self.record_rows
        return self.seq_len + rows[self.scan_distances[-1]] - rows[0]
