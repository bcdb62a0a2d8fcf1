"""Synthetic result frames that imitate real sweeps; shared by the tests of this room."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from zoology_bench.reporting.schema import to_frame

Row = dict[str, Any]


def row(**changes: Any) -> Row:
    """One overall report row of a finished attention run, with ``changes``.

    ``run_id`` follows from what varies, ``value`` from hits and n unless given.
    """
    out: Row = {
        "experiment": "sweep",
        "status": "finished",
        "kind": "trained",
        "model": "attention",
        "mixer": "attention",
        "init": "recipe",
        "d_model": 64,
        "n_layers": 2,
        "n_params_total": 50_000,
        "n_params_non_embedding": 33_000,
        "n_params_mixer": 32_000,
        "state_bytes": 32_768,
        "task": "mqar",
        "task_version": 1,
        "vocab_size": 128,
        "seq_len": 64,
        "n_kv_pairs": 4,
        "n_queries": 4,
        "layout": "official",
        "filler": "zero",
        "floor_ceiling": 0.288,
        "ceiling_se": 0.0,
        "ceiling_method": "exact",
        "lr": 2e-3,
        "seed": 0,
        "split": "report",
        "metric": "accuracy",
        "hits": 3900.0,
        "n": 4000,
        "n_rows": 1000,
        "steps": 300,
        "wall_s": 4.5,
    } | changes
    out.setdefault("data_hash", f"hash-{out['seq_len']}-{out['n_kv_pairs']}-{out['filler']}")
    out.setdefault("floor_vocab", 1 / out["vocab_size"])
    out.setdefault("floor_pairs", 1 / out["n_kv_pairs"])
    names = ("model", "init", "d_model", "seq_len", "n_kv_pairs", "lr", "seed", "filler")
    out.setdefault("run_id", "-".join(str(out[name]).replace(" ", "_") for name in names))
    if "value" not in out:
        out["value"] = out["hits"] / out["n"] if out["n"] else None
    if "se" not in out and out["n"]:
        out["se"] = float(np.sqrt(out["value"] * (1 - out["value"]) / out["n"]))
    return out


def both_splits(accuracy: float, select: float | None = None, **changes: Any) -> list[Row]:
    """The select and report rows of one run at the given accuracies."""
    n = changes.pop("n", 4000)
    chosen = accuracy if select is None else select
    return [
        row(split="select", hits=float(round(chosen * n)), n=n, **changes),
        row(split="report", hits=float(round(accuracy * n)), n=n, **changes),
    ]


def failed(**changes: Any) -> Row:
    """The row of a run that ended without a number."""
    return row(status="failed", fail_reason="loss is NaN at step 12", hits=0.0, n=0, **changes)


def frame(*rows: Row | list[Row]) -> pd.DataFrame:
    """Validated frame of rows and lists of rows."""
    flat = [r for item in rows for r in (item if isinstance(item, list) else [item])]
    return to_frame(flat)


Cell = tuple[int, int]
"""seq_len and n_kv_pairs."""


def sweep(
    arms: list[tuple[str, str]],
    cells: list[Cell],
    widths: list[int],
    n_seeds: int,
    *,
    analytic: bool = False,
    seed: int = 0,
    **changes: Any,
) -> pd.DataFrame:
    """A sweep with baselines and distance slices, accuracies from a made-up capacity law.

    Args:
        arms: (model, init) of each trained arm; attention solves everything.
        cells: evaluated cells, each trained alone.
        widths: d_model.
        n_seeds: training seeds.
        analytic: add an untrained model that is always right.
        seed: of the noise.
        changes: columns set on every row.
    """
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for seq_len, n_pairs in cells:
        cell = {"seq_len": seq_len, "n_kv_pairs": n_pairs, "n_queries": n_pairs} | changes
        cell |= {"floor_ceiling": min(1.0, 1.15 / n_pairs)}
        for rank, (model, init) in enumerate(arms):
            for width in widths:
                size = {"n_params_non_embedding": 12 * width**2 + 9 * width * (rank + 1)}
                size |= {"n_params_total": size["n_params_non_embedding"] + 192 * width}
                for index in range(n_seeds):
                    mean = _made_up_accuracy(model, rank, seq_len, n_pairs, width)
                    noisy = float(
                        np.clip(mean + rng.normal(0, 0.02 + 0.1 * mean * (1 - mean)), 0, 1)
                    )
                    run = {"model": model, "mixer": model, "init": init, "d_model": width}
                    run |= {"seed": index, **size, **cell}
                    rows += both_splits(noisy, **run)
                    rows += _distance_rows(noisy, **run)
        if analytic:
            fixed = {"kind": "untrained", "model": "analytic_base_conv", "mixer": "", "init": ""}
            fixed |= {"d_model": None, "n_layers": None, "lr": None, "n_params_mixer": 0}
            fixed |= {"n_params_total": 0, "n_params_non_embedding": 0, "steps": 0, "wall_s": 0.0}
            rows.append(row(hits=4000.0, **fixed, **cell))
            rows += _distance_rows(1.0, **fixed, **cell)
        rows += baselines(**cell)
    return frame(rows)


def baselines(**cell: Any) -> list[Row]:
    """Rows of the shipped guessers on one cell."""
    out = []
    for name, share in (("uniform", 1 / 128), ("recency", 0.9), ("best_slot", 1.1)):
        p = share if name == "uniform" else min(1.0, share / cell["n_kv_pairs"])
        none = {"d_model": None, "n_layers": None, "lr": None, "mixer": "", "init": ""}
        none |= {"n_params_total": None, "n_params_non_embedding": None, "n_params_mixer": None}
        none |= {"state_bytes": None, "steps": 0, "wall_s": 0.0, "se": 0.003}
        out.append(row(kind="baseline", model=name, hits=4000 * p, **none, **cell))
    return out


def _made_up_accuracy(model: str, rank: int, seq_len: int, n_pairs: int, width: int) -> float:
    if model == "attention":
        return 0.998
    load = n_pairs * (seq_len / 32) ** 0.3 * (1 + 0.6 * rank)
    return 1 / n_pairs + (1 - 1 / n_pairs) / (1 + np.exp(-3 * np.log(width / (9 * load))))


def _distance_rows(accuracy: float, **run: Any) -> list[Row]:
    edges = [2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 91, 128, 182, 256]
    out = []
    for low, high in pairwise(edges):
        if high > run["seq_len"]:
            break
        share = accuracy if accuracy in (0, 1) else float(np.clip(accuracy + 0.1 - low / 300, 0, 1))
        value = str(low) if high == low + 1 else f"{low}-{high - 1}"
        out.append(
            row(
                slice_key="distance",
                slice_value=value,
                hits=round(share * 400.0),
                n=400,
                n_rows=280,
                **run,
            )
        )
    return out
