from dataclasses import dataclass

import pytest
import torch

from zoology_bench.baselines.audit import audit
from zoology_bench.data.batch import Batch
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import LogUniform

HONEST = {
    "official": MQAR(seq_len=32, n_kv_pairs=4, layout="official"),
    "official-rebind": MQAR(seq_len=48, n_kv_pairs=4, layout="official", rebind_rate=0.25),
    "prefix": MQAR(seq_len=48, n_kv_pairs=4),
    "prefix-any": MQAR(seq_len=48, n_kv_pairs=4, filler="any"),
    "rebind-absent": MQAR(seq_len=64, n_kv_pairs=8, rebind_rate=0.25, absent_rate=0.34),
    "stream": MQAR(seq_len=48, n_kv_pairs=4, layout="stream"),
    "stream-rebind": MQAR(seq_len=96, n_kv_pairs=6, n_queries=3, layout="stream", rebind_rate=0.2),
    "triples": MQAR(seq_len=36, n_kv_pairs=12, n_queries=4, layout="triples"),
    "probe": MQAR(seq_len=48, n_kv_pairs=4, n_queries=1, layout="probe"),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_generators_pass(name):
    report = audit(HONEST[name], 2000)
    assert report.failures == []
    assert not report.failed


@dataclass(kw_only=True, slots=True)
class LeakyMQAR(MQAR):
    """In a share of the rows queries come in the order of their pairs: distance tells the key."""

    leaky_share: float = 1.0

    def rows(self, split, seed, start, stop, device="cpu") -> Batch:
        batch = MQAR.rows(self, split, seed, start, stop, device)
        index = torch.arange(start, stop)[:, None]
        leaky = (index * 61 % 100) < 100 * self.leaky_share
        answers, keys = batch.answers, batch.query_tokens
        batch.query_pos = torch.where(leaky, batch.query_pos.sort(1).values, batch.query_pos)
        batch.inputs.scatter_(1, batch.query_pos, keys)
        batch.targets.scatter_(1, batch.query_pos, answers)
        return batch


@pytest.mark.parametrize("share", [1.0, 0.1], ids=lambda share: f"leak{share}")
def test_a_generator_whose_distance_depends_on_the_key_index_fails(share):
    report = audit(LeakyMQAR(seq_len=64, n_kv_pairs=4, leaky_share=share), 20_000)
    assert report.failed
    assert any(failure.startswith("rank scores") for failure in report.failures)
    assert abs(report.correlation.value) > 3 * report.correlation.se


def test_the_same_generator_without_the_leak_passes():
    assert not audit(LeakyMQAR(seq_len=64, n_kv_pairs=4, leaky_share=0.0), 20_000).failed


@dataclass(kw_only=True, slots=True)
class WrongLawMQAR(MQAR):
    """Claims one law and draws another."""

    def rows(self, split, seed, start, stop, device="cpu") -> Batch:
        other = MQAR(seq_len=self.seq_len, n_kv_pairs=self.n_kv_pairs)
        return other.rows(split, seed, start, stop, device)


def test_a_generator_that_draws_another_law_fails():
    report = audit(WrongLawMQAR(seq_len=48, n_kv_pairs=4, distance=LogUniform(lo=8, hi=41)), 2000)
    assert any("miss their law" in failure for failure in report.failures)


@dataclass(kw_only=True, slots=True)
class ForgetfulMQAR(MQAR):
    """Claims absent queries and re-bound keys, makes none."""

    def rows(self, split, seed, start, stop, device="cpu") -> Batch:
        other = MQAR(seq_len=self.seq_len, n_kv_pairs=self.n_kv_pairs, n_queries=6)
        return other.rows(split, seed, start, stop, device)


def test_a_generator_that_miscounts_absent_queries_and_rebound_pairs_fails():
    task = ForgetfulMQAR(seq_len=64, n_kv_pairs=8, rebind_rate=0.25, absent_rate=0.34)
    failures = audit(task, 500).failures
    assert "0 absent queries instead of 1000" in failures
    assert "0 re-bound pairs instead of 1000" in failures


def test_counts_and_table_describe_the_rows():
    report = audit(HONEST["rebind-absent"], 1000)
    assert (report.n_queries, report.n_absent, report.n_rebound) == (6000, 2000, 2000)
    assert report.quintiles.shape == (8, 5)
    torch.testing.assert_close(torch.from_numpy(report.quintiles).sum(1), torch.ones(8).double())


def test_markdown_names_every_guesser_the_ceiling_and_the_verdict():
    page = audit(HONEST["official"], 1000).to_markdown()
    for text in ("uniform_vocab", "best_slot", "fitted to rank", "ceiling: 0.30759", "Passed."):
        assert text in page
    assert "FAILED: rank scores" in audit(LeakyMQAR(n_kv_pairs=4), 1000).to_markdown()


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="n_rows=99 must be at least 100"):
        audit(MQAR(), 99)
