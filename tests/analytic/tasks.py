"""Small tasks of every layout that the construction accepts, with zero and disjoint filler."""

from typing import Any

from zoology_bench.tasks.mqar import MQAR


def mqar(layout: str, seq_len: int, n_kv_pairs: int, **fields: Any) -> MQAR:
    """An MQAR task over 400 tokens, 16 of them filler where the layout reserves any."""
    if layout != "official":
        fields["n_filler_tokens"] = 16
    return MQAR(vocab_size=400, layout=layout, seq_len=seq_len, n_kv_pairs=n_kv_pairs, **fields)


TASKS = {
    "official": mqar("official", 64, 8),
    "prefix": mqar("prefix", 64, 8),
    "prefix-disjoint": mqar("prefix", 64, 8, filler="disjoint"),
    "prefix-rebound": mqar("prefix", 64, 12, rebind_rate=0.5),
    "prefix-absent": mqar("prefix", 64, 8, absent_rate=0.4),
    "stream": mqar("stream", 64, 8),
    "stream-disjoint-rebound": mqar("stream", 96, 12, filler="disjoint", rebind_rate=0.34),
    "stream-all": mqar(
        "stream", 96, 12, n_queries=6, filler="disjoint", rebind_rate=0.34, absent_rate=0.34
    ),
    "triples": mqar("triples", 60, 20, n_queries=8),
    "triples-rebound": mqar("triples", 60, 20, n_queries=8, rebind_rate=0.2),
    "triples-absent": mqar("triples", 60, 20, n_queries=8, absent_rate=0.25),
    "probe": mqar("probe", 64, 8, n_queries=1),
    "probe-disjoint": mqar("probe", 64, 8, n_queries=1, filler="disjoint"),
}
