"""One small task for each combination of features, shared by the tests of this folder."""

from zoology_bench.tasks.distance import Fixed, LogUniform, PowerLaw, Uniform
from zoology_bench.tasks.mqar import MQAR

SMALL = {
    "official": MQAR(layout="official", vocab_size=256, seq_len=32, n_kv_pairs=4),
    "official-any": MQAR(
        layout="official", vocab_size=100, seq_len=64, n_kv_pairs=9, filler="any", power_a=1.0
    ),
    "official-rebind": MQAR(
        layout="official", vocab_size=256, seq_len=64, n_kv_pairs=8, n_queries=3, rebind_rate=0.5
    ),
    "prefix": MQAR(vocab_size=256, seq_len=48, n_kv_pairs=8),
    "prefix-fixed": MQAR(
        vocab_size=256, seq_len=64, n_kv_pairs=4, distance=Fixed(values=[8, 15, 40])
    ),
    "prefix-any": MQAR(
        vocab_size=64, n_filler_tokens=5, seq_len=40, n_kv_pairs=4, n_queries=2, filler="any"
    ),
    "prefix-rebind-absent": MQAR(
        vocab_size=256,
        seq_len=64,
        n_kv_pairs=10,
        distance=PowerLaw(lo=20, hi=45, alpha=1.5),
        filler="disjoint",
        rebind_rate=0.4,
        absent_rate=0.5,
    ),
    "stream": MQAR(
        layout="stream",
        vocab_size=256,
        seq_len=64,
        n_kv_pairs=8,
        distance=LogUniform(lo=2, hi=32),
        filler="disjoint",
    ),
    "stream-rebind-absent": MQAR(
        layout="stream",
        vocab_size=256,
        seq_len=96,
        n_kv_pairs=8,
        n_queries=4,
        rebind_rate=0.25,
        absent_rate=0.25,
    ),
    "triples": MQAR(layout="triples", vocab_size=256, seq_len=48, n_kv_pairs=16, n_queries=4),
    "stream-stuck": MQAR(
        layout="stream",
        vocab_size=256,
        seq_len=60,
        n_kv_pairs=12,
        distance=Fixed(values=[20, 21]),
    ),
    "triples-stirred": MQAR(
        layout="triples", vocab_size=256, seq_len=63, n_kv_pairs=21, n_queries=12
    ),
    "prefix-crowded": MQAR(vocab_size=256, seq_len=80, n_kv_pairs=16),
    "probe": MQAR(
        layout="probe",
        vocab_size=256,
        seq_len=64,
        n_kv_pairs=4,
        n_queries=1,
        distance=Uniform(lo=8, hi=50),
    ),
}
