"""Batcher's odd-even merge sort as a list of stages, for any number of elements."""


def odd_even_merge_sort(n_elements: int) -> list[list[tuple[int, int]]]:
    """Stages of comparators (i, j), i < j, each of which puts the smaller element at i.

    Runs of 1, 2, 4, .. elements are merged in pairs; a merge of two runs of r compares elements r
    apart, then r/2, r/4, .., 1 apart. All comparators ascend, so that elements beyond the last may
    be imagined infinite and left out: the length need not be a power of two. There are
    t (t + 1) / 2 stages for t = ceil(log2 n_elements); the comparators of a stage have one
    distance, and no element is in two of them.
    """
    stages = []
    run = 1
    while run < n_elements:
        distance = run
        while distance:
            stages.append(_merge_stage(n_elements, run, distance))
            distance //= 2
        run *= 2
    return stages


def _merge_stage(n_elements: int, run: int, distance: int) -> list[tuple[int, int]]:
    # The first stage of a merge pairs its two runs; a later one pairs the odd blocks of its
    # distance with the even ones after them, for the first block is in place already.
    parity = 0 if distance == run else 1
    return [
        (i, i + distance)
        for i in range(n_elements - distance)
        if i % (2 * run) // distance % 2 == parity and i // (2 * run) == (i + distance) // (2 * run)
    ]
