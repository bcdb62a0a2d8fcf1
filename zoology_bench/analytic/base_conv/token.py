"""The construction in integers: compare, shift and gather, O(J) per query, any vocabulary.

On one-hot rows ``y = Q * shift_down(K, s)``, ``E = Linear_E(y)``, ``z = E * shift_down(V, s - 1)``
only ever compare a query with the key s rows up and copy the value that follows it.
"""

import torch
import torch.nn.functional as F

from zoology_bench.analytic.base_conv.rows import Rows


def answers(rows: Rows, nothing: int) -> torch.Tensor:
    """(B, Q): the value behind the nearest selected key that equals the query.

    Args:
        rows: B rows with Q positions and J lags each.
        nothing: the answer where no key matches.
    """
    length = rows.tokens.shape[1]
    # Anything that is no written key becomes -1 and anything that asks nothing -2, so that
    # one comparison checks roles and tokens together; T rows of -1 stand above the first.
    keys = F.pad(torch.where(rows.written, rows.tokens, -1), (length, 0), value=-1)
    query = torch.where(rows.asked, rows.tokens, -2).gather(1, rows.positions)
    origin = rows.positions + length
    found = torch.zeros_like(rows.positions)
    for lag in rows.lags.flip(1).unbind(1):
        # Longest lag first: the nearest match is written last and stays.
        source = origin - lag[:, None]
        found = torch.where(keys.gather(1, source) == query, source, found)
    value = rows.tokens.gather(1, (found - length + 1).clamp(min=0))
    return torch.where(found > 0, value, nothing)
