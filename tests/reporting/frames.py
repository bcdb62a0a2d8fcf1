"""Synthetic result frames that imitate real sweeps; shared by the tests of this room."""

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
