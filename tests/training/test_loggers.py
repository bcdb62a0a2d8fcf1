import base64
import json
import logging
import math
import re
import threading
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.training import wandb_files
from zoology_bench.training import loggers_wandb
from zoology_bench.training.loggers import (
    LOGGERS,
    Conclusion,
    LocalLogger,
    LocalLoggerConfig,
    RunInfo,
    WandbLogger,
    WandbLoggerConfig,
)

INFO = RunInfo(name="a run", config={"task": {"seq_len": 64}, "seed": 0}, tags=["attention"])


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def steps(run_dir):
    return [line["step"] for line in lines(run_dir)]


def test_metrics_are_readable_while_the_run_goes_on(tmp_path):
    logger = LocalLoggerConfig().build(tmp_path, INFO)
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
        logger.conclude(Conclusion(summary={"accuracy": 0.5}))
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
    logger.conclude(Conclusion(summary={"accuracy": 0.5}))
    logger.close()
    logger.close()
    assert run.calls == ["log", "summary", "finish"]
    assert not caplog.records


def test_resumed_training_continues_its_wandb_run_and_a_fresh_one_does_not(tmp_path):
    ids = []

    def init(run_id):
        ids.append(run_id)
        return FakeRun("nothing")

    for step in (0, 20, 40, 0):
        logger = WandbLogger(LocalLogger(tmp_path), tmp_path, init)
        logger.start(step)
        logger.close()
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_disabled_wandb_is_the_local_logger(tmp_path):
    built = WandbLoggerConfig(mode="disabled").build(tmp_path, INFO)
    assert isinstance(built, LocalLogger)


def test_a_wandb_that_hangs_neither_slows_training_nor_keeps_its_end_waiting(tmp_path, caplog):
    released = threading.Event()
    logger = WandbLogger(
        LocalLogger(tmp_path), tmp_path, lambda run_id: released.wait(30), timeout_s=0.2
    )
    began = time.monotonic()
    logger.start(0)
    for step in range(1, 101):
        logger.log(step, {"loss": 1.0})
    assert time.monotonic() - began < 0.2 + released.is_set()
    logger.close()
    assert time.monotonic() - began < 2
    released.set()
    assert "wandb finish failed (no answer within 0.2 s)" in caplog.text
    assert len(caplog.records) == 1
    assert steps(tmp_path) == list(range(1, 101))


def test_a_server_that_failed_is_not_waited_for_by_the_next_run(tmp_path, monkeypatch):
    modes = []

    def fail(self, run_dir, info, run_id, mode):
        modes.append(mode)
        raise ConnectionError("unreachable")

    monkeypatch.setattr(loggers_wandb, "_unreachable", set())
    monkeypatch.setattr(WandbLoggerConfig, "open_run", fail)
    for _ in range(2):
        logger = WandbLoggerConfig(mode="online").build(tmp_path, INFO)
        logger.start(0)
        logger.close()
    assert modes == ["online", "offline"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_offline_run_holds_config_axes_curves_summary_tables_and_figures(tmp_path):
    """Read back from the file that ``wandb sync`` would send."""
    image = tmp_path / "figure.png"
    image.write_bytes(PIXEL)
    logger = WandbLoggerConfig(tags=["mine"], group="g").build(tmp_path, INFO)
    logger.start(0)
    logger.log(1, {"train/loss": 1.0, "train/tokens": 2048})
    logger.conclude(
        Conclusion(
            summary={"report/accuracy/T64_P4": 0.5, "data_hash/T64_P4": "abc"},
            tables={"rows": (["model", "value"], [["attention", 0.5]])},
            images={"figures/distance": image},
        )
    )
    logger.close()
    (stored,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    got = wandb_files.read_ended(stored)
    run = got["run"]
    assert (run.display_name, run.run_group, run.job_type) == ("a run", "g", "trained")
    assert set(run.tags) == {"mine", "attention"}
    assert run.run_id == (tmp_path / "wandb_id.txt").read_text()
    assert got["config"]["task"] == {"seq_len": 64}
    assert got["history"][0]["train/tokens"] == 2048
    assert got["metrics"]["*"].step_metric == "train/tokens"
    assert got["summary"]["data_hash/T64_P4"] == "abc"
    logged = {key: value for line in got["history"] for key, value in line.items()}
    assert logged["rows/_type"] == "table-file"
    assert logged["figures/distance/_type"] == "image-file"
    assert any("media/images" in path for path in got["files"])
    assert steps(tmp_path) == [1]


@pytest.mark.slow
def test_unreachable_wandb_does_not_stop_a_run(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    config = WandbLoggerConfig(mode="online", timeout_s=3)
    logger = config.build(tmp_path, INFO)
    with caplog.at_level(logging.WARNING):
        logger.start(0)
        logger.log(1, {"loss": 1.0})
        logger.close()
    # Whether wandb gives up or is given up on first depends on the machine; it is said once.
    assert len(re.findall(r"wandb (?:init|finish) failed", caplog.text)) == 1
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
    assert config.build(tmp_path, INFO) is not None
