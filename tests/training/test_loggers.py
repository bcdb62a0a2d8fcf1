import json
import logging
import math
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from zoology_bench.training.loggers import (
    LOGGERS,
    LocalLogger,
    LocalLoggerConfig,
    WandbLogger,
    WandbLoggerConfig,
)

CONFIG = {"task": {"seq_len": 64}, "seed": 0}


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def steps(run_dir):
    return [line["step"] for line in lines(run_dir)]


def test_metrics_are_readable_while_the_run_goes_on(tmp_path):
    logger = LocalLoggerConfig().build(tmp_path, "run", CONFIG)
    logger.start(0)
    logger.log(5, {"loss": 0.5})
    assert lines(tmp_path) == [{"step": 5, "loss": 0.5}]


def test_numbers_that_json_lacks_become_null(tmp_path):
    logger = LocalLogger(tmp_path)
    logger.start(0)
    logger.log(1, {"a": math.nan, "b": math.inf, "c": 1.0})
    assert lines(tmp_path) == [{"step": 1, "a": None, "b": None, "c": 1.0}]


@pytest.mark.parametrize(
    ("start", "kept"), [(0, []), (4, [2, 4]), (5, [2, 4]), (9, [2, 4, 6])], ids=str
)
@pytest.mark.parametrize(
    "last",
    ['{"step": 3, "lo', '{"step": 3, "loss": 1.0}', "\0\0\0\n", "[]\n"],
    ids=["cut inside", "cut before the end of line", "lost pages", "foreign"],
)
def test_a_resumed_run_doubles_no_step(tmp_path, start, kept, last):
    first = LocalLogger(tmp_path)
    first.start(0)
    for step in (2, 4, 6):
        first.log(step, {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(last)
    second = LocalLogger(tmp_path)
    second.start(start)
    assert steps(tmp_path) == kept
    second.log(10, {"loss": 1.0})
    assert steps(tmp_path) == [*kept, 10]


class FakeRun:
    """A W&B run that breaks in one of its methods."""

    def __init__(self, breaks: str) -> None:
        self.breaks, self.calls = breaks, []
        self.summary = self

    def _call(self, name, *arguments):
        self.calls.append(name)
        if name == self.breaks:
            raise ConnectionError(f"{name}: network is unreachable\nand more lines")

    def log(self, metrics, step):
        self._call("log", metrics, step)

    def update(self, values):
        self._call("summary", values)

    def finish(self, exit_code):
        self._call("finish", exit_code)


@pytest.mark.parametrize("breaks", ["init", "log", "summary", "finish"])
def test_failing_wandb_warns_once_and_the_local_file_is_complete(tmp_path, caplog, breaks):
    run = FakeRun(breaks)

    def init(run_id):
        run._call("init", run_id)
        return run

    logger = WandbLogger(LocalLogger(tmp_path), tmp_path, init)
    with caplog.at_level(logging.WARNING):
        logger.start(0)
        for step in (1, 2, 3):
            logger.log(step, {"loss": 1.0})
        logger.summarize({"accuracy": 0.5})
        logger.close()
    (record,) = caplog.records
    assert f"wandb {breaks} failed ({breaks}: network is unreachable)" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert steps(tmp_path) == [1, 2, 3]
    assert run.calls[-1] == breaks, "W&B was called again after it had failed"


def test_working_wandb_gets_everything_once(tmp_path, caplog):
    run = FakeRun("nothing")
    logger = WandbLogger(LocalLogger(tmp_path), tmp_path, lambda run_id: run)
    logger.start(0)
    logger.log(1, {"loss": 1.0})
    logger.summarize({"accuracy": 0.5})
    logger.close()
    logger.close()
    assert run.calls == ["log", "summary", "finish"]
    assert not caplog.records


def test_resumed_training_continues_its_wandb_run_and_a_fresh_one_does_not(tmp_path):
    ids = []
    for step in (0, 20, 40, 0):
        logger = WandbLogger(LocalLogger(tmp_path), tmp_path, ids.append)
        logger.start(step)
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_disabled_wandb_is_the_local_logger(tmp_path):
    built = WandbLoggerConfig(mode="disabled").build(tmp_path, "run", CONFIG)
    assert isinstance(built, LocalLogger)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_offline_wandb_leaves_a_file_to_sync_inside_the_run_folder(tmp_path):
    logger = WandbLoggerConfig(tags=["test"], group="g").build(tmp_path, "a run", CONFIG)
    logger.start(0)
    logger.log(1, {"loss": 1.0})
    logger.summarize({"report/accuracy": 0.5})
    logger.close()
    (stored,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    expected = (b"loss", b"seq_len", b"report/accuracy", b"a run")
    # W&B's own process may write the end of the file shortly after finish has returned.
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not all(e in stored.read_bytes() for e in expected):
        time.sleep(0.05)
    assert [e for e in expected if e not in stored.read_bytes()] == []
    assert steps(tmp_path) == [1]


@pytest.mark.slow
def test_unreachable_wandb_does_not_stop_a_run(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    config = WandbLoggerConfig(mode="online", timeout_s=3)
    logger = config.build(tmp_path, "run", CONFIG)
    with caplog.at_level(logging.WARNING):
        logger.start(0)
        logger.log(1, {"loss": 1.0})
        logger.close()
    assert "wandb init failed" in caplog.text
    assert steps(tmp_path) == [1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "ofline"}, "logger.mode='ofline' is unknown; did you mean 'offline'?"),
        ({"timeout_s": 0}, "logger.timeout_s=0 must be positive"),
    ],
    ids=["mode", "timeout"],
)
def test_bad_values_name_the_field(changes, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        WandbLoggerConfig(**changes)


@pytest.mark.parametrize("name", sorted(LOGGERS))
def test_registered_loggers_survive_omegaconf_and_build(tmp_path: Path, name):
    config = OmegaConf.to_object(OmegaConf.structured(LOGGERS[name]))
    assert isinstance(config, LOGGERS[name])
    assert config.name == name
    assert config.build(tmp_path, "run", CONFIG) is not None
