"""Theorem 4.4 of arXiv:2312.04927: multi-query recall compiled to input-independent BaseConv.

records   each triple becomes a key record and a query record, bits of the token and of the time
sort      Batcher's network orders the records by (token, time)
scan      every record receives the nearest key record at or above it
match     the token received is compared with the record's own; hit and value are what remains
route     every record goes home: the network backwards, or a second sort by time
output    hit and value bits in one row for each query, zeros everywhere else

Between a query and the last earlier write of its token stand, in sorted order, only queries of that
token, so the nearest key record is the answer if its token agrees, and no answer exists otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zoology_bench.analytic.circuit.builder import Builder, Milestone, copy_of
from zoology_bench.analytic.circuit.comparator import (
    ABOVE,
    BELOW,
    OWN,
    choose,
    chosen,
    compare_exchange,
)
from zoology_bench.analytic.circuit.plan import Plan
from zoology_bench.analytic.circuit.program import (
    Affine,
    Channel,
    Program,
    constant,
    keep,
    read,
)

ROUTES = ("swaps", "sort")
HIT = "hit"


@dataclass(frozen=True, slots=True)
class Circuit:
    """A compiled program and where its answers stand."""

    plan: Plan
    program: Program
    n_bits: int
    answer_rows: tuple[int, ...]
    """Row of every query's answer."""
    answer_slots: tuple[int, ...]
    """Columns of the hit bit and of the value's bits, most significant first."""
    milestones: tuple[Milestone, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    """Channels of a record."""

    token: tuple[str, ...]
    value: tuple[str, ...]
    time: tuple[str, ...]

    @property
    def is_key(self) -> str:
        """The last bit of the time: a query of triple i is at time 2i, its key at 2i + 1."""
        return self.time[-1]


_Home = tuple[dict[str, Affine], tuple[int, ...]]
"""Hit and value bits, and the home rows that hold the queries' answers."""


def compile_circuit(
    n_triples: int, n_bits: int, *, padded: bool, route: str, clean: bool = False
) -> Circuit:
    """Write the layers for ``n_triples`` triples of ``n_bits``-bit tokens.

    Args:
        n_triples: n >= 2.
        n_bits: b >= 1.
        padded: causal convolutions, answers ``plan.offset`` rows below their queries; otherwise
            cyclic convolutions, answers in place.
        route: ``swaps`` keeps the swap bit of every stage and runs the network backwards; ``sort``
            sorts again by time.
        clean: add 3 x^2 - 2 x^3 after each stage of a sort, for convolutions that round.
    """
    plan = Plan(n_triples, padded)
    inputs = _numbered("in", n_bits)
    names = _Names(
        _numbered("token", n_bits), _numbered("value", n_bits), _numbered("time", plan.time_bits)
    )
    builder = Builder(plan, Program(plan.n_rows, inputs, cyclic=not padded), clean)
    _records(builder, inputs, names)
    keys, swaps = [*names.token, *names.time], route == "swaps"
    for index in range(len(plan.stages)):
        compare_exchange(builder, index, keys, names.value, _swap_bit(index) if swaps else "")
        builder.mark(f"sort {index}")
    _take_keys(builder, names, () if swaps else names.time)
    for distance in plan.scan_distances:
        _scan(builder, names, distance)
    hit = _match(builder, names)
    go_home = _undo_swaps if swaps else _sort_by_time
    home, rows = go_home(builder, names, hit)
    return _output(builder, home, rows, n_bits)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{i}" for i in range(count))


def _swap_bit(index: int) -> str:
    return f"swapped{index}"


def _records(builder: Builder, inputs: Sequence[str], names: _Names) -> None:
    """Key records take the token above them and the value in their row; time comes from b1."""
    plan = builder.plan
    key_rows, query_rows = builder.rows(plan.key_rows), builder.rows(plan.query_rows)
    # The key's bits move through the convolution, the query's do not: two channels, then a sum.
    builder.emit(
        "read",
        [
            *(Channel(f"key of {x}", constant(key_rows), read(x).down(1)) for x in inputs),
            *(keep(f"query of {x}", read(x), query_rows) for x in inputs),
            *(keep(v, read(x), key_rows) for v, x in zip(names.value, inputs, strict=True)),
        ],
    )
    token = {
        bit: read(f"key of {x}") + read(f"query of {x}")
        for bit, x in zip(names.token, inputs, strict=True)
    }
    time = {bit: _time_bit(builder, index) for index, bit in enumerate(names.time)}
    keys = token | time
    channels = [keep(copy_of(x, 0), keys[x]) for x in keys]
    channels += [keep(copy_of(x, 1), keys[x]) for x in keys if x != names.is_key]
    channels += [keep(copy_of(v, 0), read(v)) for v in names.value]
    builder.emit("records", channels)
    builder.mark("records")


def _time_bit(builder: Builder, index: int) -> Affine:
    """A bit of every record's time, most significant first."""
    plan = builder.plan
    times = {row: 2 * i for i, row in enumerate(plan.query_rows)}
    times |= {row: 2 * i + 1 for i, row in enumerate(plan.key_rows)}
    shift = plan.time_bits - 1 - index
    return constant(builder.row_values({row: time >> shift & 1 for row, time in times.items()}))


def _take_keys(builder: Builder, names: _Names, kept_keys: Sequence[str]) -> None:
    """Every key record offers its token and value; kept swap bits move to where they are needed."""
    plan = builder.plan
    is_key = read(copy_of(names.is_key, 0))
    channels = [
        Channel(_found(x), is_key, read(copy_of(x, 0))) for x in (*names.token, *names.value)
    ]
    channels += [keep(copy_of("full", i), is_key) for i in (0, 1)]
    own = [*names.token, *kept_keys]
    channels += [keep(x, read(copy_of(x, 0))) for x in own]
    swap_bits, builder.carried = builder.carried, []
    for index, bit in enumerate(swap_bits):
        needed = 2 * plan.sort_drift - plan.drift_before(index + 1)
        moved = read(bit).down(needed - plan.drift_before(index))
        channels.append(Channel(bit, constant(1.0), moved))
    builder.emit("take keys", channels)
    builder.carried = [*swap_bits, *own]
    builder.mark("take keys")


def _found(bit: str) -> str:
    return f"found {bit}"


def _scan(builder: Builder, names: _Names, distance: int) -> None:
    """A record without a key record takes what the record ``distance`` above it has found."""
    shifts = builder.plan.scan_shifts(distance)
    found = [_found(x) for x in (*names.token, *names.value)]
    empty, full = 1 - read(copy_of("full", 0)), copy_of("full", 1)
    builder.emit(
        f"scan {distance}",
        [
            *(Channel(f"{x} above", empty, read(x).down(*shifts)) for x in found),
            Channel("full above", empty, read(full).down(*shifts)),
            *(keep(x, read(x)) for x in found),
            keep("full", read(copy_of("full", 0))),
        ],
    )
    records = builder.rows(builder.plan.record_rows)
    filled = read("full") + read("full above")
    builder.emit(
        f"scan {distance} +",
        [
            *(keep(x, read(x) + read(f"{x} above"), records) for x in found),
            *(keep(copy_of("full", i), filled, records) for i in (0, 1)),
        ],
    )
    builder.mark(f"scan {distance}")


def _match(builder: Builder, names: _Names) -> Affine:
    """1 where a key record was found and its token is the record's own."""
    channels = [Channel(x, 1 - 2 * read(x), 1 - 2 * read(_found(x))) for x in names.token]
    channels += [keep(v, read(_found(v))) for v in names.value]
    channels.append(keep(HIT, read(copy_of("full", 0))))
    builder.carried = [x for x in builder.carried if x not in names.token]
    builder.emit("match", channels)
    factors = [read(HIT), *((1 + read(x)) * 0.5 for x in names.token)]
    level = 0
    value = {v: read(v) for v in names.value}
    while len(factors) > 1:
        channels = [keep(copy_of(v, i), value[v]) for v in value for i in (OWN, BELOW, ABOVE)]
        value = {v: read(copy_of(v, OWN)) for v in value}
        products = []
        for i in range(0, len(factors), 2):
            pair = factors[i : i + 2]
            name = f"agree{i}"
            products.append(Channel(name, *pair) if len(pair) == 2 else keep(name, pair[0]))
        builder.emit(f"all agree {level}", [*channels, *products])
        factors = [read(product.name) for product in products]
        level += 1
    return factors[0]


def _undo_swaps(builder: Builder, names: _Names, hit: Affine) -> _Home:
    """Run the network backwards by its kept swap bits: two layers a stage, nothing compared."""
    plan = builder.plan
    bits = (HIT, *names.value)
    copies = [(x, i) for x in bits for i in (OWN, BELOW, ABOVE)]
    made = [
        keep(copy_of(HIT, i), hit) if x == HIT else Channel(copy_of(x, i), hit, read(copy_of(x, i)))
        for x, i in copies
    ]
    name = "value"
    for index in reversed(range(len(plan.stages))):
        stage, drift = plan.stages[index], plan.drift(index)
        swap = read(builder.carried.pop())
        later = keep("later", swap, builder.rows(stage.later, drift))
        earlier = keep("earlier", swap, builder.rows(stage.earlier, drift))
        builder.emit(name, [*made, later, earlier])
        swaps = read("later"), read("earlier")
        builder.emit(f"undo {index}", choose(bits, *swaps, drift, stage.span))
        builder.drift += drift
        builder.mark(f"undo {index}")
        made = [keep(copy_of(x, i), chosen(x)) for x, i in copies]
        name = f"undo {index} +"
    return {x: chosen(x) for x in bits}, plan.query_rows


def _sort_by_time(builder: Builder, names: _Names, hit: Affine) -> _Home:
    """Sort again, by time alone: no kept bits, so that the width is O(log c + log n).

    In time a query comes before its triple's key, in rows after it: the answer ends in the row
    where the key record began.
    """
    payload = (HIT, *names.value)
    builder.carried = []
    channels = [keep(copy_of(HIT, 0), hit)]
    channels += [Channel(copy_of(v, 0), hit, read(copy_of(v, OWN))) for v in names.value]
    channels += [keep(copy_of(x, 0), read(x)) for x in names.time]
    channels += [keep(copy_of(x, 1), read(x)) for x in names.time[:-1]]
    builder.emit("value", channels)
    for index in range(len(builder.plan.stages)):
        compare_exchange(builder, index, names.time, payload)
        builder.mark(f"by time {index}")
    return {x: read(copy_of(x, 0)) for x in payload}, builder.plan.key_rows


def _output(
    builder: Builder, home: dict[str, Affine], rows: tuple[int, ...], n_bits: int
) -> Circuit:
    """Hit and value bits at the rows of the queries alone."""
    plan = builder.plan
    assert builder.drift == plan.offset
    mask = builder.rows(rows)
    builder.emit("output", [keep(x, expression, mask) for x, expression in home.items()])
    builder.mark("output")
    slots = builder.program.slots
    return Circuit(
        plan=plan,
        program=builder.program,
        n_bits=n_bits,
        answer_rows=tuple(row + builder.drift for row in rows),
        answer_slots=tuple(slots[x] for x in home),
        milestones=tuple(builder.milestones),
    )
