"""Configuration: presets compose, wrong input names its field, grids expand as the user asked."""

import json
import re
from dataclasses import dataclass

import pytest
from omegaconf import OmegaConf

from zoology_bench import config
from zoology_bench.config import compose, plan, register_schemas
from zoology_bench.mixers import MIXERS
from zoology_bench.plain import to_plain
from zoology_bench.presets import config_dir
from zoology_bench.tasks import TASKS
from zoology_bench.tasks.distance import DISTANCE_LAWS
from zoology_bench.training.loggers import LOGGERS
from zoology_bench.user_errors import translate


def preset_names(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


@pytest.mark.parametrize(
    ("group", "registry"),
    [
        ("task", TASKS),
        ("task/distance", DISTANCE_LAWS),
        ("model/mixer", MIXERS),
        ("logger", LOGGERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_registered_component_has_a_preset_of_its_name(group, registry):
    assert set(registry) <= set(preset_names(group))


def test_plain_config_is_json_and_names_every_component():
    plain = to_plain(compose(["task=mqar_stream_log", "model=base_conv"]))
    assert json.loads(json.dumps(plain)) == plain
    assert plain["task"]["kind"] == "mqar"
    assert plain["task"]["distance"] == {"kind": "log_uniform", "lo": 2, "hi": 128}
    assert plain["model"]["mixer"]["kind"] == "base_conv"


def test_model_takes_vocabulary_and_length_from_the_task():
    cfg = compose(["task=mqar_based_128_32"])
    assert (cfg.model.vocab_size, cfg.model.seq_len) == (8192, 128)


WRONG = [
    (["task.seqlen=3"], "task.seqlen is unknown; did you mean 'task.seq_len'?"),
    (["task=mqr"], "task='mqr' is unknown; did you mean 'mqar'? known:"),
    (["model/mixer=atention"], "model/mixer='atention' is unknown; did you mean 'attention'?"),
    (["task.seq_len=abc"], "task.seq_len: Value 'abc' of type 'str' could not be converted"),
    (["task.seq_len=8"], "task.seq_len=8 is too short for task.n_kv_pairs=4"),
    (["+typo=1"], "key typo='+typo' is unknown"),
    (["+task.seqlen=1"], "key task.seqlen='+seqlen' is unknown; did you mean 'seq_len'?"),
    (["foo=1"], "foo is unknown; known in a run:"),
    (["task/distance=fixed"], "task.distance.values=[] must name at least one distance"),
    (["a=b=c=["], "'a=b=c=[' is not key=value"),
    (["trainer.lr=-1"], "trainer.lr=-1.0 must be positive"),
    (["model=analytic_base_conv", "model.n_distances=100"], "n_distances=100"),
    (["model=base_conv_circuit"], "task.layout=prefix does not fit model=base_conv_circuit"),
    (["task=mqar_triples", "model=base_conv_circuit", "model.route=swap"], "model.route='swap'"),
    (["experiment=smoke,quickstart"], "run one experiment at a time"),
    (["device=cuda:x"], "device='cuda:x' is unknown"),
    (["device=tpu"], "device='tpu' is unknown; known: cpu, cuda, cuda:N"),
    (["seed=-1"], "seed=-1 must be at least 0"),
    (["model.vocab_size=100"], "task.vocab_size=8192 must equal model.vocab_size=100"),
    (["model.seq_len=32"], "task.seq_len=64 must be at most model.seq_len=32"),
    (["experiment=smok"], "experiment='smok' is unknown; did you mean 'smoke'?"),
    (["model.mixer.n_heads=3"], "model.mixer.n_heads=3 must divide model.d_model=64"),
]


@pytest.mark.parametrize(("overrides", "message"), WRONG, ids=[w[0][0] for w in WRONG])
def test_wrong_input_gets_one_line_with_field_value_and_rule(overrides, message):
    with pytest.raises(Exception) as caught:
        compose(overrides)
    line = str(translate(caught.value))
    assert message in line
    assert "\n" not in line


@dataclass
class Schedule:
    steps: int = 1


@dataclass
class Planned:
    schedule: Schedule | None = None


UNSET = [
    (["task.distance.lo=8"], "task.distance"),
    (["task.distance={lo:8}"], "task.distance"),
    (["task/distance=uniform", "task.distance=null", "task.distance.lo=8"], "task.distance"),
    (["task=mqar_probe", "task.binding.lo=1", "task.distance.hi=40"], "task.binding"),
    (["+task@eval_tasks.a=mqar", "eval_tasks.a.distance.lo=8"], "eval_tasks.a.distance"),
    (["task.distance.lo=8,9"], "task.distance"),
    (["task.distance={lo:8},{lo:9}"], "task.distance"),
    (["model=baselines,attention", "task.distance.lo=8"], "task.distance"),
]


@pytest.mark.parametrize(("overrides", "key"), UNSET, ids=[" ".join(w) for w, _ in UNSET])
def test_a_field_of_an_unset_law_is_refused_with_the_known_laws(overrides, key):
    with pytest.raises(ValueError) as caught:
        plan(overrides)
    rule = rf"{key}\S+: {key} is not set; choose one first: \S+=uniform \(known: empirical, .*\)"
    assert re.fullmatch(rule, str(caught.value))


@pytest.mark.parametrize(
    ("task", "key", "lo"),
    [
        ("task=mqar", "task.distance", 8),
        ("task=mqar_probe", "task.binding", 0),
        ("+task@eval_tasks.a=mqar", "eval_tasks.a.distance", 8),
    ],
    ids=["distance", "binding", "evaluated"],
)
def test_the_choice_that_the_error_names_can_be_made(task, key, lo):
    bounds = [f"{key}.lo={lo}", f"{key}.hi={lo + 1}"]
    with pytest.raises(ValueError, match="choose one first: ") as caught:
        compose([task, *bounds])
    choice = re.findall(r"first: (\S+)", str(caught.value))
    compose([task, *choice, *bounds])


def test_a_field_of_any_other_unset_value_is_refused_without_a_choice():
    raw = OmegaConf.structured(Planned)
    with pytest.raises(ValueError, match=r"^schedule\.steps=3: schedule is not set$"):
        config._with_values(raw, ["schedule.steps=3"])


def test_a_failed_assertion_over_anything_else_stays_one(monkeypatch):
    composed = config.hydra_compose

    def broken(name, overrides):
        assert "seed=1" not in overrides, "a bug"
        return composed(name, overrides=overrides)

    monkeypatch.setattr(config, "hydra_compose", broken)
    with pytest.raises(AssertionError, match="a bug"):
        compose(["task/distance=uniform", "task.distance.lo=8", "seed=1", "task.distance.hi=9"])


def test_a_bug_of_ours_is_not_called_the_users_fault():
    assert translate(KeyError("x")) is None
    assert translate(AssertionError("x")) is None


def test_sweeps_multiply_and_a_fixed_value_replaces_an_axis_of_the_experiment():
    assert len(plan(["seed=0,1,2", "model=attention,base_conv"])) == 6
    everything = plan(["experiment=smoke"])
    one_model = plan(["experiment=smoke", "model=attention"])
    two_seeds = plan(["experiment=smoke", "model=attention", "seed=3,4"])
    assert len(one_model) == len(everything) // 4
    assert [cell.seed for cell in two_seeds] == [3, 4]


def test_no_cell_of_a_plan_keeps_a_value_of_the_one_before():
    cells = plan(["model=attention", "trainer.betas=[0.9,0.95],[0.8,0.9]", "trainer.lr=null,0.5"])
    found = [(cell.trainer.betas, cell.trainer.lr) for cell in cells]
    assert found == [([0.9, 0.95], None), ([0.9, 0.95], 0.5), ([0.8, 0.9], None), ([0.8, 0.9], 0.5)]
    laws = plan(
        ["task=mqar_prefix_log", "task.distance={lo:40},{hi:100}", "seed=0,1", "model=base_conv"]
    )
    assert [(c.task.distance.lo, c.task.distance.hi) for c in laws] == [(40, 224)] * 2 + [
        (32, 100)
    ] * 2


def test_compose_refuses_a_grid_and_points_to_plan():
    with pytest.raises(ValueError, match=r"grid of 2 runs; use plan\(\)"):
        compose(["seed=0,1"])


def test_registration_twice_is_harmless():
    register_schemas()
    register_schemas()
    assert compose([]).seed == 0


def test_a_users_own_presets_come_from_config_dir(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nexperiment: mine\ntask:\n  n_kv_pairs: 2\nsweep:\n  seed: [0, 1]\n"
    )
    cells = plan(["experiment=mine"], [str(tmp_path)])
    assert [(c.experiment, c.task.n_kv_pairs, c.seed) for c in cells] == [
        ("mine", 2, 0),
        ("mine", 2, 1),
    ]


def test_a_missing_config_dir_is_named():
    with pytest.raises(ValueError, match="--config-dir 'nowhere' is not a folder"):
        plan([], ["nowhere"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.vocab_size=1000000000000000000000000", r"task\.vocab_size=10+ must be at most"),
        ("task.seq_len=1000000000", r"task\.seq_len=1000000000 must be at most"),
        ("task.n_kv_pairs=1000000000", r"task\.n_kv_pairs=1000000000 must be at most"),
        ("task.data_seed=99999999999999999999", r"task\.data_seed=9+ must be at most"),
        ("model.d_model=1000000000", r"model\.d_model=1000000000 must be at most"),
        ("model.n_layers=1000000000", r"model\.n_layers=1000000000 must be at most"),
        ("seed=99999999999999999999", r"seed=9+ must be at most"),
        ("threads=99999999999999999999", r"threads=9+ must be at most"),
    ],
    ids=lambda value: value.partition("=")[0],
)
def test_a_slip_of_zeros_is_refused_before_anything_is_allocated(override, message):
    with pytest.raises(ValueError, match=message):
        compose(["model=attention", override])


def test_a_distance_beyond_every_integer_type_is_named():
    with pytest.raises(ValueError, match=r"task\.distance\.values=10+ is off the layout's lattice"):
        compose(["model=attention", "task/distance=fixed", f"task.distance.values=[{10**24}]"])
