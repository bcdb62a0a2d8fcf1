"""What an audit found, and the page that says so."""

from dataclasses import dataclass

import numpy as np

from zoology_bench.baselines.ceiling import Ceiling
from zoology_bench.baselines.statistics import ChiSquare, Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditReport:
    """What an audit found; ``failures`` says in words what is wrong, and is empty if nothing is."""

    task: str
    """One line that names the audited cell."""
    n_rows: int
    scores: dict[str, Estimate]
    """Score of every baseline, and of guessers fitted to the rows themselves."""
    ceiling: Ceiling
    correlation: Estimate
    """Of interaction distance and key index, over present queries."""
    key_groups: list[str]
    """First-last key index of each line of ``quintiles``."""
    quintiles: np.ndarray
    """(groups, 5) share of each key group's queries in each quintile of the distance."""
    law: ChiSquare | None
    """Realised against wanted distances; None where the wanted law has no closed form."""
    n_queries: int
    """Queries audited."""
    n_absent: int
    """Queries that ask a key the row never writes."""
    n_rebound: int
    """Pairs that write a key the row has written before."""
    failures: list[str]

    @property
    def failed(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.failures)

    def to_markdown(self) -> str:
        """The report as a page."""
        return "\n".join(_lines(self))


def key_groups(n_pairs: int, n_groups: int) -> list[str]:
    """First-last key index of equal groups of the P pairs; pair i is in group i * n_groups // P."""
    firsts = [-(-group * n_pairs // n_groups) for group in range(n_groups + 1)]
    lasts = [first - 1 for first in firsts[1:]]
    return [str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=False)]


def _lines(report: AuditReport) -> list[str]:
    ceiling, r = report.ceiling, report.correlation
    error = f" (se {ceiling.se:.5f})" if ceiling.method == "simulated" else ""
    lines = [
        f"# Audit: {report.task}",
        "",
        f"{report.n_rows} report rows, {report.n_queries} queries; intervals are 99.9 %, rows as"
        " clusters.",
        "",
        f"Content-blind ceiling: {ceiling.value:.5f}{error}, {ceiling.method}, by {ceiling.fact}.",
        "",
        "| guesser | score | interval |",
        "|---|---|---|",
    ]
    for name, score in report.scores.items():
        lines.append(f"| {name} | {score.value:.5f} | {score.low:.5f} .. {score.high:.5f} |")
    lines += [
        "",
        f"Correlation of distance and key index: {r.value:+.4f} ({r.low:+.4f} .. {r.high:+.4f}).",
        "",
        "Share of each key's queries in each quintile of the distance (.20 if independent):",
        "",
        "| key index | nearest | 2 | 3 | 4 | farthest |",
        "|---|---|---|---|---|---|",
    ]
    for group, shares in zip(report.key_groups, report.quintiles, strict=True):
        lines.append(f"| {group} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    lines += [
        "",
        _law_line(report.law),
        "",
        f"Absent queries: {report.n_absent}. Re-bound pairs: {report.n_rebound}.",
        "",
        *(f"FAILED: {failure}." for failure in report.failures),
    ]
    return lines if report.failed else [*lines, "Passed."]


def _law_line(law: ChiSquare | None) -> str:
    if law is None:
        return "Distance law: no closed form to compare with (official layout with re-bound keys)."
    return (
        f"Distance law: chi-square {law.statistic:.1f} on {law.n_bins} bins of at least 20 expected"
        f" queries, p = {law.p:.3g}."
    )
