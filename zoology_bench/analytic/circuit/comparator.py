"""One stage of a sorting network as 4 + ceil(log2 w) BaseConv layers, w the bits compared.

leaf      compare each bit of a record with the same bit of the record ``span`` rows above
tree      combine the bits lexicographically, two by two
swap      send "out of order" to both rows that the comparator concerns, masked to those rows
choose    (own bit) or (partner's bit), as three products
add       their sum, in as many copies as the next leaf reads

Comparisons happen in every row, junk included, and are masked only at ``swap``: that is what keeps
a stage short. (1 - c) x + c x' is no product of two affine expressions, hence choose *and* add.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zoology_bench.analytic.circuit.builder import Builder, copy_of
from zoology_bench.analytic.circuit.program import (
    Affine,
    Channel,
    Rows,
    constant,
    keep,
    read,
    total,
)

OWN, BELOW, ABOVE = range(3)
"""Copies of a bit that ``choose`` reads: the record's own, its lower and its upper partner's."""


@dataclass(frozen=True, slots=True)
class _Order:
    """How two records compare on some bits, where the lower record stands."""

    less: Affine
    """1 where the lower record is less than the upper one: out of order."""
    equal: Affine | None
    """1 where they are equal, an expression of one channel; None if nobody will ask."""


def compare_exchange(
    builder: Builder, index: int, keys: Sequence[str], payload: Sequence[str], store: str = ""
) -> None:
    """Put each pair of records of a stage in order of their ``keys``.

    Reads and makes copy 0 of every bit and copy 1 of every key bit but the last.

    Args:
        builder: where to emit.
        index: the stage.
        keys: bits to compare, most significant first.
        payload: bits that go along.
        store: carry the swap bit on under this name.
    """
    stage, drift = builder.plan.stages[index], builder.plan.drift(index)
    bits = [*keys, *payload]
    less = _compare(builder, index, keys, bits)
    later = _sent("later", less, drift, builder.rows(stage.later, drift))
    earlier = _sent("earlier", less, drift - stage.span, builder.rows(stage.earlier, drift))
    copies = [keep(copy_of(x, i), read(x)) for x in bits for i in (OWN, BELOW, ABOVE)]
    builder.emit(f"swap {index}", [*copies, *later, *earlier])
    swap_later, swap_earlier = _sum_of(later), _sum_of(earlier)
    channels = choose(bits, swap_later, swap_earlier, drift, stage.span)
    if store:
        channels.append(keep(store, swap_later + swap_earlier))
    builder.emit(f"choose {index}", channels)
    if store:
        builder.carried.append(store)
    copies = [(x, i) for x in bits for i in (0, 1) if i == 0 or x in keys[:-1]]
    builder.emit(f"add {index}", [keep(copy_of(x, i), chosen(x)) for x, i in copies])
    if builder.clean:
        _clean(builder, index, bits, copies)
    builder.drift += drift


def choose(
    bits: Sequence[str], swap_later: Affine, swap_earlier: Affine, drift: int, span: int
) -> list[Channel]:
    """Own bit, or the partner's where a swap bit is set, as three products; see ``chosen``.

    Args:
        bits: in copies OWN, BELOW and ABOVE.
        swap_later: 1 in the new rows of later records that swap.
        swap_earlier: 1 in the new rows of earlier records that swap.
        drift: rows that every record moves down.
        span: rows between the partners.
    """
    channels = []
    for bit in bits:
        own, below, above = (copy_of(bit, i) for i in (OWN, BELOW, ABOVE))
        channels += [
            Channel(own, 1 - swap_later - swap_earlier, read(own).down(drift)),
            Channel(below, swap_earlier, read(below).down(drift - span)),
            Channel(above, swap_later, read(above).down(drift + span)),
        ]
    return channels


def chosen(bit: str) -> Affine:
    """The bit that ``choose`` left in three channels, two of which are zero."""
    return total(read(copy_of(bit, i)) for i in (OWN, BELOW, ABOVE))


def _compare(builder: Builder, index: int, keys: Sequence[str], bits: Sequence[str]) -> Affine:
    """Layers ``leaf`` and ``tree``: 1 at a later record's row if it is less than its partner."""
    span = builder.plan.stages[index].span
    channels = [keep(x, read(copy_of(x, 0))) for x in bits]
    orders = []
    for i, x in enumerate(keys):
        own, above, above_too = (read(copy_of(x, copy)) for copy in (0, 0, 1))
        channels.append(Channel(f"less{i}", 1 - own, above.down(span)))
        equal = None
        if i < len(keys) - 1:
            # +1 or -1 in one product; (1 + same) / 2 is the bit.
            channels.append(Channel(f"same{i}", 1 - 2 * own, 1 - 2 * above_too.down(span)))
            equal = (1 + read(f"same{i}")) * 0.5
        orders.append(_Order(read(f"less{i}"), equal))
    builder.emit(f"leaf {index}", channels)
    level = 0
    while len(orders) > 1:
        channels, orders = _tree_level(orders)
        builder.emit(f"tree {index}.{level}", [*channels, *(keep(x, read(x)) for x in bits)])
        level += 1
    return orders[0].less


def _tree_level(orders: Sequence[_Order]) -> tuple[list[Channel], list[_Order]]:
    """(l, e) o (l', e') = (l + e l', e e'), for neighbours.

    A sum of channels costs nothing, since W adds; ``equal`` has to stay one channel, since the
    convolution reads only one.
    """
    channels: list[Channel] = []
    merged = []
    for i in range(0, len(orders), 2):
        high = orders[i]
        channels.append(keep(f"less{i}", high.less))
        less, equal = read(f"less{i}"), high.equal
        if i + 1 < len(orders):
            low = orders[i + 1]
            assert high.equal is not None
            channels.append(Channel(f"tied{i}", low.less, high.equal))
            less += read(f"tied{i}")
            equal = low.equal
            if equal is not None:
                channels.append(Channel(f"same{i}", high.equal, equal))
        elif equal is not None:
            channels.append(keep(f"same{i}", equal))
        merged.append(_Order(less, None if equal is None else read(f"same{i}")))
    return channels, merged


def _sent(name: str, expression: Affine, shift: int, rows: Rows) -> list[Channel]:
    """``expression`` moved by ``shift`` rows and masked, in channels that sum to it."""
    if shift == 0:
        return [keep(name, expression, rows)]
    return [
        Channel(f"{name}{i}", constant(rows), term.down(shift))
        for i, term in enumerate(expression.split())
    ]


def _sum_of(channels: Sequence[Channel]) -> Affine:
    return total(read(channel.name) for channel in channels)


def _clean(
    builder: Builder, index: int, bits: Sequence[str], copies: Sequence[tuple[str, int]]
) -> None:
    """3 x^2 - 2 x^3 = (3 - 2 x) x^2 in two layers: fixes 0 and 1 and squares what is off them."""
    first = {x: read(copy_of(x, 0)) for x in bits}
    squares = [Channel(copy_of(x, i), first[x], read(copy_of(x, i))) for x, i in copies]
    builder.emit(f"square {index}", [*squares, *(keep(x, first[x]) for x in bits)])
    cubes = [Channel(copy_of(x, i), 3 - 2 * read(x), read(copy_of(x, i))) for x, i in copies]
    builder.emit(f"clean {index}", cubes)
