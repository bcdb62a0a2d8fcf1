import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.training.toy import (
    SELECT_ROWS,
    Clock,
    ToyModel,
    no_batches,
    same,
    select,
    toy_rows,
    train_toy,
    weights,
)
from zoology_bench.data.batch import IGNORE
from zoology_bench.training.checkpoint import CheckpointStore
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.evaluate import accuracy
from zoology_bench.training.loggers import NullLogger
from zoology_bench.training.optim import build_optimizer, lr_at, set_lr

QUICK = TrainerConfig(max_steps=30, eval_every=5, checkpoint_every=10)


class Recorder(NullLogger):
    def __init__(self):
        self.started, self.lines = [], []

    def start(self, step):
        self.started.append(step)

    def log(self, step, metrics):
        self.lines.append((step, dict(metrics)))


def test_toy_is_solved_and_the_threshold_stops_it():
    model = ToyModel()
    config = TrainerConfig(max_steps=1000, eval_every=10, stop_at=0.99)
    result = train_toy(model, config)
    assert (result.stop_reason, result.status, result.reason) == ("threshold", "ok", "")
    assert result.steps < 400
    assert result.steps % 10 == 0
    assert result.history[-1].select_accuracy >= 0.99 > result.history[-2].select_accuracy
    assert accuracy(model, SELECT_ROWS) == result.history[-1].select_accuracy
    assert not result.budget_limited
    assert result.peak_mem_bytes > 0


def test_no_threshold_uses_the_whole_budget_and_evaluates_its_end():
    result = train_toy(ToyModel(), replace(QUICK, max_steps=23))
    assert (result.steps, result.examples, result.stop_reason) == (23, 23 * 16, "max_steps")
    assert [e.step for e in result.history] == [5, 10, 15, 20, 23]


def test_a_plateau_never_stops_a_run():
    result = train_toy(ToyModel(), replace(QUICK, stop_at=0.99), select=lambda model: 0.25)
    assert result.stop_reason == "max_steps"


def test_weights_equal_a_loop_written_out():
    """Loss at the labelled positions, clip, warm-up and cosine, in plain torch."""
    config = replace(QUICK, max_steps=12, warmup_steps=4, clip_norm=0.5)
    trained, plain = ToyModel(dropout=0.0), ToyModel(dropout=0.0)
    result = train_toy(trained, config)
    optimizer = build_optimizer(plain, config, lr=1e-2)
    losses = []
    for step in range(12):
        rows = toy_rows(step)
        everywhere = torch.arange(rows.inputs.shape[1]).expand_as(rows.inputs)
        logits = plain(rows.inputs, everywhere)
        loss = F.cross_entropy(logits.flatten(0, 1), rows.targets.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        shape = {"peak": 1e-2, "warmup_steps": 4, "total_steps": 12, "final_fraction": 0.1}
        set_lr(optimizer, lr_at(step, **shape))
        optimizer.step()
        losses.append(loss.item())
    for name, expected in plain.state_dict().items():
        assert torch.allclose(trained.state_dict()[name], expected, atol=1e-6), name
    assert result.history[0].train_loss == pytest.approx(sum(losses[:5]) / 5, rel=1e-5)
    assert result.history[1].train_loss == pytest.approx(sum(losses[5:10]) / 5, rel=1e-5)


def test_a_run_repeats_bit_for_bit_and_leaves_the_global_generator_alone():
    first, second, other = ToyModel(), ToyModel(), ToyModel()
    before = torch.get_rng_state()
    train_toy(first, QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)  # whatever else the process does must not matter
    train_toy(second, QUICK)
    train_toy(other, QUICK, seed=1)
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other)), "the seed does not reach dropout"


def test_evaluation_does_not_disturb_training():
    """Neither its random numbers nor its mode, nor how often it happens."""

    def noisy_select(model):
        torch.rand(5)
        model.eval()
        return 0.0

    often, once = ToyModel(), ToyModel()
    train_toy(often, replace(QUICK, eval_every=1), select=noisy_select)
    train_toy(once, replace(QUICK, eval_every=30))
    assert same(weights(often), weights(once))


def test_wall_time_leaves_evaluation_and_checkpoints_out(tmp_path):
    clock = Clock()

    def slow_select(model):
        clock.now += 1000
        return 0.0

    class SlowStore(CheckpointStore):
        def save(self, state):
            clock.now += 1000

    arguments = {"clock": clock, "select": slow_select}
    result = train_toy(ToyModel(), QUICK, store=SlowStore(tmp_path / "c.pt", {}), **arguments)
    assert 30 <= result.wall_s < 200


def test_max_seconds_counts_training_only_and_evaluates_the_end():
    clock = Clock()

    def slow_select(model):
        clock.now += 1000
        return 0.0

    config = replace(QUICK, max_steps=1000, max_seconds=20.0)
    result = train_toy(ToyModel(), config, clock=clock, select=slow_select)
    assert result.stop_reason == "max_seconds"
    assert 20 <= result.wall_s < 25
    assert result.history[-1].step == result.steps < 20


class Exploding(ToyModel):
    """Turns to ``value`` at the n-th training step, in the loss or only in the gradient."""

    def __init__(self, at: int, value: float, where: str):
        super().__init__()
        self.at, self.value, self.where, self.calls = at, value, where, 0

    def forward(self, tokens, positions):
        logits = super().forward(tokens, positions)
        self.calls += self.training
        if self.training and self.calls > self.at:
            if self.where == "loss":
                return logits * self.value
            logits.register_hook(lambda gradient: gradient * self.value)
        return logits


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.nan, math.inf], ids=["nan", "inf"])
@pytest.mark.parametrize("clip_norm", [1.0, None], ids=["clipped", "unclipped"])
def test_a_broken_number_ends_the_run_with_its_last_good_step(tmp_path, where, value, clip_norm):
    config = replace(QUICK, clip_norm=clip_norm)
    # The same schedule, stopped by hand after the 17 good steps.
    good = ToyModel()

    def stop_after_17(step):
        if step == 17:
            raise StopIteration
        return toy_rows(step)

    with pytest.raises(StopIteration):
        train_toy(good, config, batches=stop_after_17)

    broken = Exploding(17, value, where)
    store = CheckpointStore(tmp_path / "checkpoint.pt", {})
    result = train_toy(broken, config, store=store)
    assert (result.status, result.stop_reason, result.steps) == ("failed", "nan", 17)
    assert "at step 17" in result.reason
    assert "\n" not in result.reason
    assert same(weights(good), weights(broken))
    stored = store.load()
    assert stored is not None
    assert same(stored["model"], weights(good))


def test_a_failed_run_is_not_tried_again(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoint.pt", {})
    first = train_toy(Exploding(7, math.nan, "loss"), QUICK, store=store)
    again = train_toy(ToyModel(), QUICK, store=store, batches=no_batches)
    assert (again.status, again.reason, again.steps) == ("failed", first.reason, 7)


def test_checkpoint_every_zero_saves_the_end_only(tmp_path):
    saved = []

    class Recording(CheckpointStore):
        def save(self, state):
            saved.append(state["progress"]["step"])

    store = Recording(tmp_path / "c.pt", {})
    train_toy(ToyModel(), replace(QUICK, checkpoint_every=0), store=store)
    assert saved == [30]


def test_every_evaluation_is_logged_after_the_start():
    logger = Recorder()
    result = train_toy(ToyModel(), QUICK, logger=logger)
    assert logger.started == [0]
    assert [step for step, _ in logger.lines] == [5, 10, 15, 20, 25, 30]
    last = logger.lines[-1][1]
    assert last["select/accuracy"] == result.history[-1].select_accuracy
    assert last["train/examples"] == 480
    assert last["train/lr"] == pytest.approx(1e-3)


def test_bf16_trains_with_weights_in_fp32():
    model = ToyModel()
    config = TrainerConfig(max_steps=300, eval_every=10, stop_at=0.99, precision="bf16")
    assert train_toy(model, config).stop_reason == "threshold"
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    plain = ToyModel()
    train_toy(plain, replace(config, precision="fp32"))
    assert not same(weights(model), weights(plain))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_compiled_training_agrees_with_eager():
    compiled, eager = ToyModel(dropout=0.0), ToyModel(dropout=0.0)
    train_toy(compiled, replace(QUICK, compile=True))
    train_toy(eager, QUICK)
    for name, expected in eager.state_dict().items():
        assert torch.allclose(compiled.state_dict()[name], expected, atol=1e-4), name
    assert select(compiled) == select(eager)


@pytest.mark.gpu
def test_a_gpu_reaches_the_threshold_and_reports_its_memory():
    model = ToyModel().to("cuda")

    def select_there(model):
        return accuracy(model, SELECT_ROWS, "cuda")

    config = TrainerConfig(max_steps=1000, eval_every=10, stop_at=0.99)
    result = train_toy(model, config, device="cuda", select=select_there)
    assert result.stop_reason == "threshold"
    assert 0 < result.peak_mem_bytes < 1 << 30
