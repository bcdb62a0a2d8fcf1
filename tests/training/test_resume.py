import pytest

from tests.training.toy import Clock, no_batches, run_in, same, toy_rows, weights
from zoology_bench.training.checkpoint import CheckpointStore
from zoology_bench.training.config import TrainerConfig

QUICK = TrainerConfig(max_steps=30, eval_every=5, checkpoint_every=10)


def crashing_at(last, error=None):
    """Toy rows until step ``last``, then an error."""

    def batches(step):
        if step == last:
            raise error or RuntimeError("crash")
        return toy_rows(step)

    return batches


@pytest.mark.parametrize("crash_at", [3, 10, 11, 14, 20, 29])
def test_resume_after_a_crash_equals_an_uninterrupted_run(tmp_path, crash_at):
    expected_model, expected = run_in(tmp_path / "whole", QUICK)

    with pytest.raises(RuntimeError, match="crash"):
        run_in(tmp_path / "crashed", QUICK, batches=crashing_at(crash_at))
    model, result = run_in(tmp_path / "crashed", QUICK)
    assert same(weights(model), weights(expected_model))
    assert result.history == expected.history
    assert (result.steps, result.examples) == (expected.steps, expected.examples)


def test_resume_restores_the_time_already_spent(tmp_path):
    with pytest.raises(RuntimeError, match="crash"):
        run_in(tmp_path, QUICK, batches=crashing_at(25), clock=Clock())
    _, result = run_in(tmp_path, QUICK, clock=Clock())
    # A second per reading of the clock: 20 steps before the checkpoint, 10 after it.
    assert 30 <= result.wall_s < 60


def test_a_finished_run_is_returned_without_training(tmp_path):
    model, first = run_in(tmp_path, QUICK)
    again_model, again = run_in(tmp_path, QUICK, batches=no_batches)
    assert same(weights(model), weights(again_model))
    assert (again.stop_reason, again.history) == (first.stop_reason, first.history)


def test_an_interrupt_is_passed_on_and_leaves_the_last_checkpoint(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path, QUICK, batches=crashing_at(17, KeyboardInterrupt()))
    state = CheckpointStore(tmp_path / "checkpoint.pt", {"max_steps": 30}).load()
    assert state is not None
    assert state["progress"]["step"] == 10
