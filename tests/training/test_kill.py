import json
import multiprocessing
import random
import signal
import time
from pathlib import Path

import pandas as pd
import torch

from tests.training.killable import COMMAND, EVAL_EVERY, N_STEPS, run, run_command
from zoology_bench.config import compose
from zoology_bench.result_rows import run_id_of

N_KILLS = 4

# Children fork from a process that has imported torch once; each is a process of its own.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.training.killable", "torch._dynamo", "zoology_bench.launch"]
)


def start(folder: Path, target=run):
    process = PROCESSES.Process(target=target, args=(folder,))
    process.start()
    return process


def logged_lines(run_dir: Path) -> int:
    path = run_dir / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def metrics_without_time(run_dir: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "train/wall_s"} for line in lines]


def kill_after(process, run_dir: Path, n_more_lines: int, delay: float) -> None:
    target = logged_lines(run_dir) + n_more_lines
    while process.is_alive() and logged_lines(run_dir) < target:
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the run ended before it could be killed"


def test_run_killed_at_random_moments_equals_an_uninterrupted_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    uninterrupted = start(whole)
    chance = random.Random(0)
    for _ in range(N_KILLS):
        kill_after(start(killed), killed, chance.randint(1, 10), chance.uniform(0, 0.02))
    survivor = start(killed)
    for process in (uninterrupted, survivor):
        process.join()
        assert process.exitcode == 0

    expected = torch.load(whole / "weights.pt", weights_only=True)
    actual = torch.load(killed / "weights.pt", weights_only=True)
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    assert metrics_without_time(killed) == metrics_without_time(whole)
    assert len(metrics_without_time(killed)) == N_STEPS // EVAL_EVERY
    assert (killed / "history.txt").read_text() == (whole / "history.txt").read_text()


def rows_without_surroundings(folder: Path) -> pd.DataFrame:
    rows = pd.read_csv(folder / "outputs/default/results.csv", keep_default_na=False)
    return rows.drop(columns=["wall_s", "timestamp", "peak_mem_bytes", "git_sha", "dirty"])


def test_command_killed_after_a_checkpoint_equals_an_uninterrupted_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    place = Path("outputs/default/runs") / run_id_of(compose(COMMAND))
    uninterrupted = start(whole, run_command)
    kill_after(start(killed, run_command), killed / place, n_more_lines=5, delay=0)
    assert (killed / place / "checkpoint.pt").exists()
    assert not list((killed / place).glob("result.*"))
    # With their times, and without those that may be newer than the checkpoint.
    before = (killed / place / "metrics.jsonl").read_text().splitlines()[:-2]
    survivor = start(killed, run_command)
    for process in (uninterrupted, survivor):
        process.join()
        assert process.exitcode == 0

    lines = (killed / place / "metrics.jsonl").read_text().splitlines()
    assert lines[: len(before)] == before, "trained anew"
    assert metrics_without_time(killed / place) == metrics_without_time(whole / place)
    rows = rows_without_surroundings(whole)
    pd.testing.assert_frame_equal(rows_without_surroundings(killed), rows)
    assert set(rows.status) == {"finished"}
    expected, actual = (
        torch.load(folder / place / "checkpoint.pt", weights_only=True)["state"]
        for folder in (whole, killed)
    )
    assert expected["model"].keys() == actual["model"].keys()
    assert all(
        torch.equal(expected["model"][name], actual["model"][name]) for name in expected["model"]
    )
