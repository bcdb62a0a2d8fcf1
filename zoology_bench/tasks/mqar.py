"""Multi-query associative recall: write key-value pairs, ask for the value of some keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import ClassVar

from zoology_bench.data.batch import Batch
from zoology_bench.data.buffers import BufferPool, fresh
from zoology_bench.data.layout import PublicLayout, Vocabulary
from zoology_bench.tasks.base import Task, check_rows
from zoology_bench.tasks.distance import DISTANCE_LAWS, DistanceLaw
from zoology_bench.tasks.generator import RowGenerator
from zoology_bench.tasks.layouts import LAYOUTS
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec
from zoology_bench.validation import MAX_SEED, check_fraction, check_int, check_name

FILLERS = ("zero", "disjoint", "any")
_FILLER_ANY_LAYOUTS = ("official", "prefix")
_DEFAULT_POWER_A = 0.01
_DEFAULT_FILLER_TOKENS = 64
_MOST_POWER_A = 32
_MOST_TOKENS = 1 << 31
_MOST_POSITIONS = 1 << 22
"""Beyond any use, but what is derived from them still fits into memory and integers."""


class _Built(Task):
    """Room for what a task derives from its fields; not a field, so never part of a config."""

    __slots__ = ("_generator",)

    _generator: RowGenerator


@dataclass(kw_only=True, slots=True)
class MQAR(_Built):
    """Multi-query associative recall (arXiv:2312.04927, section 3 and appendix on MQAR).

    A row writes P key-value pairs, each a key token followed by its value token, and asks Q keys
    once more; the label at a query is the value that the key was last given. Example with
    ``seq_len=16, n_kv_pairs=3, layout="prefix"`` (k for keys, v for values, . for the blank, - for
    no label)::

        position   0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        inputs    k7 v2 k4 v9 k1 v5  .  .  .  . k7 k1  . k4  .  .
        targets    -  -  -  -  -  -  -  -  -  - v2 v5  - v9  -  -

        query_pos         10 13 11     one column for each asked pair
        key_pos            0  2  4     distance = query_pos - key_pos = 10 11 7
        binding_distance   2  1  0     pairs written between the write and the query
    """

    name: ClassVar[str] = "mqar"
    version: ClassVar[int] = 1

    n_kv_pairs: int = 4
    """Pairs written in a row, P."""
    n_queries: int | None = None
    """Keys asked in a row, each once, Q; None asks every distinct key."""
    layout: str = "prefix"
    """Where pairs and queries stand: official, prefix, stream, triples or probe."""
    distance: DistanceLaw | None = None
    """Law of query position - key position; None is uniform over all the layout can produce."""
    binding: DistanceLaw | None = None
    """Law of the pairs written between write and query (probe only); None is uniform."""
    filler: str = "zero"
    """Unoccupied cells: zero (the blank), disjoint (tokens of no other role), any (every token)."""
    n_filler_tokens: int = _DEFAULT_FILLER_TOKENS
    """Size of the disjoint filler's range, reserved by every layout but official."""
    rebind_rate: float = 0.0
    """floor(rate * P) of the pairs re-bind a key that an earlier pair wrote: the last counts."""
    absent_rate: float = 0.0
    """floor(rate * Q) of the queries ask a key never written; their answer is the absent token."""
    power_a: float = _DEFAULT_POWER_A
    """Exponent a of the official slot law p(g) ~ g^(a-1); 1 is uniform. Official only; -32..32."""

    def __post_init__(self) -> None:
        self._check_fields()
        n_rebound = _share(self.rebind_rate, self.n_kv_pairs)
        n_queries = self._checked_n_queries(n_rebound)
        n_absent = self._checked_n_absent(n_queries)
        vocabulary = self._checked_vocabulary(n_rebound, n_absent)
        spec = LayoutSpec(
            seq_len=self.seq_len,
            n_kv_pairs=self.n_kv_pairs,
            n_queries=n_queries,
            n_rebound=n_rebound,
            distance=self.distance,
            binding=self.binding,
            power_a=self.power_a,
        )
        layout = LAYOUTS[self.layout](spec)
        filler = self._filler_range(vocabulary)
        tag = "|".join(
            str(part)
            for part in (
                *(self.name, self.version, self.layout, self.seq_len, vocabulary),
                *(self.n_kv_pairs, n_queries, n_rebound, n_absent, filler, layout.identity),
            )
        )
        self._generator = RowGenerator(layout, vocabulary, n_absent, filler, tag)

    def rows(self, split: str, seed: int, start: int, stop: int, device: str = "cpu") -> Batch:
        where = check_rows(split, seed, start, stop, device)
        empty = partial(fresh, device=where)
        return self._generator.rows(split, seed, start, stop, where, empty)

    def row_maker(self, split: str, seed: int, device: str = "cpu") -> Callable[[int, int], Batch]:
        where = check_rows(split, seed, 0, 0, device)
        empty = BufferPool().take if where.type == "cpu" else partial(fresh, device=where)

        def rows(start: int, stop: int) -> Batch:
            check_rows(split, seed, start, stop, device)
            return self._generator.rows(split, seed, start, stop, where, empty)

        return rows

    def public_layout(self) -> PublicLayout:
        distances = self._generator.layout.distance_range
        return PublicLayout(
            name=self.layout,
            vocabulary=self.vocabulary,
            seq_len=self.seq_len,
            min_distance=distances[0],
            max_distance=distances[-1],
            distance_step=distances.step,
        )

    def cell(self) -> dict[str, int | str]:
        law = f"slots(a={self.power_a:g})" if self.layout == "official" else _text(self.distance)
        if self.layout == "probe":
            law = f"{law}, binding {_text(self.binding)}"
        return {
            "n_kv_pairs": self.n_kv_pairs,
            "n_queries": self.queries_per_row,
            "layout": self.layout,
            "distance_law": law,
            "filler": self.filler,
        }

    @property
    def vocabulary(self) -> Vocabulary:
        """Token ranges of the roles."""
        return self._generator.vocabulary

    @property
    def placement(self) -> Layout:
        """The layout bound to this task's numbers: its laws, for floors and audits."""
        return self._generator.layout

    @property
    def queries_per_row(self) -> int:
        """Q with None resolved."""
        return self._generator.layout.spec.n_queries

    @property
    def n_rebound(self) -> int:
        """Pairs of a row that re-bind a key: floor(rebind_rate * P)."""
        return self._generator.layout.spec.n_rebound

    @property
    def n_absent(self) -> int:
        """Queries of a row that ask a key never written: floor(absent_rate * Q)."""
        return self._generator.n_absent

    def _check_fields(self) -> None:
        check_int("task.vocab_size", self.vocab_size, 4, _MOST_TOKENS)
        check_int("task.seq_len", self.seq_len, 3, _MOST_POSITIONS)
        check_int("task.data_seed", self.data_seed, 0, MAX_SEED)
        check_int("task.n_kv_pairs", self.n_kv_pairs, 1, _MOST_POSITIONS)
        check_int("task.n_filler_tokens", self.n_filler_tokens, 1)
        check_name("task.layout", self.layout, LAYOUTS)
        check_name("task.filler", self.filler, FILLERS)
        for field, law in (("distance", self.distance), ("binding", self.binding)):
            if law is not None and not isinstance(law, DistanceLaw):
                known = ", ".join(sorted(kind.__name__ for kind in DISTANCE_LAWS.values()))
                raise ValueError(f"task.{field}={law!r} is no distance law; known: {known}")
        for field in ("rebind_rate", "absent_rate", "power_a"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"task.{field}={value!r} must be a number")
        check_fraction("task.rebind_rate", self.rebind_rate, upper_open=True)
        check_fraction("task.absent_rate", self.absent_rate)
        if not -_MOST_POWER_A <= self.power_a <= _MOST_POWER_A:
            raise ValueError(
                f"task.power_a={self.power_a} must lie in -{_MOST_POWER_A}..{_MOST_POWER_A}"
            )
        self._check_used()

    def _check_used(self) -> None:
        """Refuse what the chosen layout would ignore, or could not answer for."""
        if self.power_a != _DEFAULT_POWER_A and self.layout != "official":
            raise ValueError(
                f"task.power_a={self.power_a} needs task.layout=official, not {self.layout}"
            )
        if self.n_filler_tokens != _DEFAULT_FILLER_TOKENS and self.layout == "official":
            raise ValueError(
                f"task.n_filler_tokens={self.n_filler_tokens} reserves tokens, which "
                f"task.layout=official does not: leave it at {_DEFAULT_FILLER_TOKENS}"
            )
        if self.binding is not None and self.layout != "probe":
            raise ValueError(f"task.binding needs task.layout=probe, not {self.layout}")
        if self.filler == "any" and self.layout not in _FILLER_ANY_LAYOUTS:
            raise ValueError(
                f"task.filler=any makes answers ambiguous in task.layout={self.layout}: "
                f"use zero or disjoint (any goes with {' and '.join(_FILLER_ANY_LAYOUTS)})"
            )
        if self.filler == "disjoint" and not LAYOUTS[self.layout].takes_filler:
            raise ValueError(
                f"task.filler=disjoint has no cell to fill in task.layout={self.layout}: use zero"
            )
        if self.filler == "disjoint" and self.layout == "official":
            raise ValueError(
                "task.filler=disjoint needs tokens that task.layout=official does not reserve: "
                "use zero or any, or task.layout=prefix"
            )

    def _checked_n_queries(self, n_rebound: int) -> int:
        if self.rebind_rate > 0 and n_rebound == 0:
            raise ValueError(
                f"task.rebind_rate={self.rebind_rate} re-binds no pair of "
                f"task.n_kv_pairs={self.n_kv_pairs}: need rebind_rate >= {_one_of(self.n_kv_pairs)}"
            )
        n_keys = self.n_kv_pairs - n_rebound
        if self.n_queries is None:
            return n_keys
        check_int("task.n_queries", self.n_queries, 1)
        if self.n_queries > n_keys:
            raise ValueError(
                f"task.n_queries={self.n_queries} must be at most {n_keys}, the distinct keys of "
                f"task.n_kv_pairs={self.n_kv_pairs} with task.rebind_rate={self.rebind_rate}"
            )
        return self.n_queries

    def _checked_n_absent(self, n_queries: int) -> int:
        n_absent = _share(self.absent_rate, n_queries)
        if self.absent_rate > 0 and self.layout == "official":
            raise ValueError(
                f"task.absent_rate={self.absent_rate} needs the absent token, which "
                "task.layout=official does not reserve"
            )
        if self.absent_rate > 0 and n_absent == 0:
            raise ValueError(
                f"task.absent_rate={self.absent_rate} makes none of {n_queries} queries absent: "
                f"need absent_rate >= {_one_of(n_queries)}"
            )
        return n_absent

    def _checked_vocabulary(self, n_rebound: int, n_absent: int) -> Vocabulary:
        n_keys = self.n_kv_pairs - n_rebound + n_absent
        if self.layout == "official":
            vocabulary = Vocabulary.official(self.vocab_size)
            smallest = 2 * (self.n_kv_pairs + 1)
        else:
            smallest = 2 + self.n_filler_tokens + 2 * max(n_keys, self.n_kv_pairs)
            vocabulary = Vocabulary.reserved(self.vocab_size, self.n_filler_tokens)
        if self.vocab_size < smallest:
            reserved = (
                ""
                if self.layout == "official"
                else (f" and task.n_filler_tokens={self.n_filler_tokens}")
            )
            raise ValueError(
                f"task.vocab_size={self.vocab_size} is too small for "
                f"task.n_kv_pairs={self.n_kv_pairs}{reserved}: need vocab_size >= {smallest}"
            )
        return vocabulary

    def _filler_range(self, vocabulary: Vocabulary) -> range:
        if self.filler == "zero":
            return range(vocabulary.blank, vocabulary.blank + 1)
        return vocabulary.filler if self.filler == "disjoint" else range(self.vocab_size)


def _share(rate: float, n: int) -> int:
    """floor(rate * n) of the rate as written: .29 of 100 is 29, and a third of 12 is 4."""
    written = Fraction(repr(float(rate)))
    simple = written.limit_denominator(1_000_000)
    return math.floor((simple if float(simple) == rate else written) * n)


def _one_of(n: int) -> str:
    """A rate that is one of n at least, in six decimals: rounded up, so that it is accepted."""
    return f"{math.ceil(1_000_000 / n) / 1_000_000:g}"


def _text(law: DistanceLaw | None) -> str:
    """A law with its numbers: ``uniform(lo=8, hi=57)``; None is uniform over the whole support."""
    if law is None:
        return "uniform"
    numbers = ", ".join(f"{field.name}={getattr(law, field.name)}" for field in fields(law))
    return f"{law.name}({numbers})"
