"""Over all configurations: a valid one runs two steps, any other names the field that is wrong.

Every field of a configuration is drawn so that the whole is feasible; then, in some examples, one
value is replaced by one that may break a rule. Drawn independently, nearly all would be invalid.
"""

import math
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from zoology_bench.analytic import AnalyticBaseConvConfig
from zoology_bench.baselines import BaselinesConfig
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base import MixerConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.mixers.hybrid import HybridConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.run_config import RunConfig
from zoology_bench.runner import run
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Empirical, Fixed, LogUniform, PowerLaw, Uniform
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.loggers import LOGGERS

MAX_SEQ_LEN = 64
NAMED_FIRST = ("task.", "model.", "trainer.", "seed", "threads", "device")

Fields = dict[str, object]


def whole(lo: int, hi: int) -> st.SearchStrategy[int]:
    return st.integers(lo, max(lo, hi))


@st.composite
def laws(draw: st.DrawFn, lattice: range) -> object:
    """A law within a lattice of at least one point; None asks for all of it."""
    low, high = sorted((draw(st.sampled_from(lattice)), draw(st.sampled_from(lattice))))
    within = {"lo": low, "hi": high}
    anywhere = [None, Fixed(values=[low])] if len(lattice) else [None]
    spread = [Uniform(**within)]
    if low >= 1:
        spread += [LogUniform(**within), PowerLaw(**within, alpha=1.5)]
    return draw(st.sampled_from(anywhere + spread))


@st.composite
def official(draw: st.DrawFn) -> Fields:
    n_pairs = draw(whole(1, 6))
    seq_len = 2 * draw(whole(2 * n_pairs, MAX_SEQ_LEN // 2))
    filler = draw(st.sampled_from(["zero", "disjoint", "any"]))
    power_a = draw(st.sampled_from([0.01, 1.0, -32.0, 32.0]))
    return {"n_kv_pairs": n_pairs, "seq_len": seq_len, "filler": filler, "power_a": power_a}


@st.composite
def prefix(draw: st.DrawFn) -> Fields:
    n_pairs = draw(whole(1, 6))
    seq_len = draw(whole(4 * n_pairs - 1, MAX_SEQ_LEN))
    distance = draw(laws(range(2 * n_pairs, seq_len - 2 * n_pairs + 2)))
    filler = draw(st.sampled_from(["zero", "disjoint", "any"]))
    return {"n_kv_pairs": n_pairs, "seq_len": seq_len, "distance": distance, "filler": filler}


@st.composite
def stream(draw: st.DrawFn) -> Fields:
    n_pairs = draw(whole(1, 6))
    n_queries = draw(whole(1, n_pairs))
    shortest = math.ceil((2 * n_pairs + n_queries) / 0.6)
    seq_len = draw(whole(shortest, MAX_SEQ_LEN))
    distance = draw(laws(range(2, seq_len // 2 + 1)))
    filler = draw(st.sampled_from(["zero", "disjoint"]))
    sizes = {"n_kv_pairs": n_pairs, "n_queries": n_queries, "seq_len": seq_len}
    return sizes | {"distance": distance, "filler": filler}


@st.composite
def triples(draw: st.DrawFn) -> Fields:
    n_pairs = draw(whole(2, MAX_SEQ_LEN // 3))
    longest = draw(whole(1, n_pairs - 1))
    n_queries = draw(whole(1, n_pairs - longest))
    distance = draw(laws(range(5, 3 * longest + 3, 3))) or Fixed(values=[3 * longest + 2])
    sizes = {"n_kv_pairs": n_pairs, "n_queries": n_queries, "seq_len": 3 * n_pairs}
    return sizes | {"distance": distance}


@st.composite
def probe(draw: st.DrawFn) -> Fields:
    n_pairs = draw(whole(1, 6))
    between = draw(whole(0, n_pairs - 1))
    shortest = 2 * between + 2
    longest = draw(whole(shortest, MAX_SEQ_LEN - 2 * n_pairs))
    seq_len = draw(whole(longest + 1 + 2 * (n_pairs - 1), MAX_SEQ_LEN))
    distance = draw(laws(range(shortest, longest + 1))) or Uniform(lo=shortest, hi=longest)
    binding = Uniform(lo=0, hi=between)
    filler = draw(st.sampled_from(["zero", "disjoint"]))
    sizes = {"n_kv_pairs": n_pairs, "n_queries": 1, "seq_len": seq_len}
    return sizes | {"distance": distance, "binding": binding, "filler": filler}


LAYOUTS = {
    "official": official(),
    "prefix": prefix(),
    "stream": stream(),
    "triples": triples(),
    "probe": probe(),
}
WRONG_TASK = st.one_of(
    st.tuples(st.just("seq_len"), st.sampled_from([0, 1, 7, 16, 63])),
    st.tuples(st.just("n_kv_pairs"), st.sampled_from([0, 1, 9, 31])),
    st.tuples(st.just("n_queries"), st.sampled_from([0, 1, 2, 12, None])),
    st.tuples(st.just("vocab_size"), st.sampled_from([2, 4, 17, 100])),
    st.tuples(st.just("layout"), st.sampled_from(["nothing", *LAYOUTS])),
    st.tuples(st.just("filler"), st.sampled_from(["nothing", "disjoint", "any"])),
    st.tuples(st.just("n_filler_tokens"), st.sampled_from([0, 1, 200])),
    st.tuples(st.just("power_a"), st.sampled_from([1.0, math.nan, math.inf, -1e10, 33.0])),
    st.tuples(st.just("rebind_rate"), st.sampled_from([0.5, 0.9, 1.0, -0.1, math.nan])),
    st.tuples(st.just("absent_rate"), st.sampled_from([0.5, 1.0, 1.1, math.nan])),
    st.tuples(st.just("data_seed"), st.sampled_from([-1, 1, 2**40])),
    st.tuples(
        st.just("distance"),
        st.sampled_from(
            [
                Fixed(values=[]),
                Fixed(values=[3, 3]),
                Uniform(lo=9, hi=4),
                LogUniform(lo=0, hi=5),
                PowerLaw(lo=1, hi=60, alpha=math.nan),
                Empirical(path="no/such/file.csv"),
            ]
        ),
    ),
)
MIXERS: st.SearchStrategy[MixerConfig] = st.one_of(
    st.builds(
        AttentionConfig,
        n_heads=st.sampled_from([1, 2]),
        positions=st.sampled_from(["learned", "rotary", "none"]),
    ),
    st.builds(
        BaseConvConfig,
        filters=st.lists(
            st.sampled_from(["short", "explicit", "implicit"]), min_size=1, max_size=2
        ),
        variant=st.sampled_from(["paper", "official"]),
    ),
    st.builds(
        HybridConfig,
        mixers=st.just(
            {
                "conv": BaseConvConfig(filters=["short"]),
                "attention": AttentionConfig(positions="none"),
            }
        ),
        pattern=st.sampled_from([["conv", "attention"], ["attention"], ["conv"]]),
    ),
)
WRONG_MODEL = st.one_of(
    st.tuples(st.just("d_model"), st.sampled_from([0, 3, 6])),
    st.tuples(st.just("n_layers"), st.sampled_from([0, 3])),
    st.tuples(st.just("norm"), st.just("batch")),
    st.tuples(st.just("init"), st.just("zeros")),
    st.tuples(st.just("vocab_size"), st.just(1000)),
    st.tuples(st.just("seq_len"), st.sampled_from([1, 128])),
)
WRONG_TRAINER = st.one_of(
    st.tuples(st.just("lr"), st.sampled_from([0.0, -1.0, math.nan])),
    st.tuples(st.just("betas"), st.sampled_from([[0.9], [0.9, 1.0]])),
    st.tuples(st.just("precision"), st.sampled_from(["fp8", "bf16"])),
    st.tuples(st.just("n_report_rows"), st.just(1)),
    st.tuples(st.just("stop_at"), st.sampled_from([0.0, 2.0, math.nan])),
    st.tuples(st.just("warmup_steps"), st.sampled_from([-1, 0, 5])),
)
WRONG_RUN = st.sampled_from(
    [("seed", -1), ("threads", 0), ("device", "gpu"), ("device", "cuda:99"), ("seed", 2**40)]
)
PARTS = {"task": WRONG_TASK, "model": WRONG_MODEL, "trainer": WRONG_TRAINER, "run": WRONG_RUN}


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Fields]:
    """Fields by part of a run; at most one of them replaced by a value that may be wrong."""
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    parts: dict[str, Fields] = {
        "task": {"layout": layout, "vocab_size": 256} | draw(LAYOUTS[layout]),
        "model": {
            "kind": draw(st.sampled_from(["lm", "lm", "lm", "analytic", "baseline"])),
            "mixer": draw(MIXERS),
            "d_model": 8,
            "n_layers": draw(whole(1, 2)),
            "d_mlp": draw(st.sampled_from([0, 8])),
            "norm": draw(st.sampled_from(["rms", "layer"])),
            "init": draw(st.sampled_from(["recipe", "random", "gpt2"])),
        },
        "trainer": {"lr": draw(st.sampled_from([None, 1e-3])), "max_steps": 2, "batch_size": 2},
        "run": {"seed": draw(whole(0, 9))},
    }
    if draw(st.integers(0, 2)) == 0:
        part = draw(st.sampled_from(sorted(PARTS)))
        field, value = draw(PARTS[part])
        parts[part][field] = value
    return parts


def built(parts: dict[str, Fields]) -> RunConfig:
    task = MQAR(**parts["task"])
    fields = dict(parts["model"])
    kind = fields.pop("kind")
    if kind == "analytic":
        model = AnalyticBaseConvConfig(n_distances=fields["n_layers"])
    elif kind == "baseline":
        model = BaselinesConfig()
    else:
        sizes = {"vocab_size": task.vocab_size, "seq_len": task.seq_len}
        model = LanguageModelConfig(**sizes | fields)
    few = {"eval_every": 1, "eval_batch_rows": 2, "n_select_rows": 2, "n_report_rows": 2}
    trainer = TrainerConfig(**few | parts["trainer"])
    return RunConfig(
        task=task, model=model, trainer=trainer, logger=LOGGERS["local"](), **parts["run"]
    )


def test_any_configuration_runs_two_steps_or_names_its_field(tmp_path: Path):
    seen: Counter[str] = Counter()

    @settings(max_examples=100, derandomize=True, deadline=None, database=None)
    @given(parts=configurations())
    def check(parts: dict[str, Fields]) -> None:
        seen["tried"] += 1
        try:
            result = run(built(parts), tmp_path / str(seen["tried"]))
        except ValueError as error:
            assert str(error).startswith(NAMED_FIRST), error
            assert "\n" not in str(error)
            return
        assert result.status == "finished", (parts, result.reason)
        seen["ran"] += 1
        seen[str(parts["task"]["layout"])] += 1
        seen[str(parts["model"]["kind"])] += 1

    check()
    print(dict(seen))
    # What is drawn must exercise both outcomes, every layout and every kind of model.
    assert seen["tried"] // 2 <= seen["ran"] <= seen["tried"] - 10
    for kind in (*LAYOUTS, "lm", "analytic", "baseline"):
        assert seen[kind] >= 5, (kind, seen)
