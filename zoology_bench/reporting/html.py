"""One page that needs no network: a table to sort and filter, figures, and every run's origin.

With plotly (the ``html`` extra) the figures are interactive, and its script is part of the page;
without, they are the SVG files of the report.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import CHOICE, TRAINING, choose
from zoology_bench.reporting.columns import CELL
from zoology_bench.reporting.html_table import ACCURACY_COLUMN, table_cells
from zoology_bench.reporting.tables import LEGEND, provenance

_PAGE = Path(__file__).with_name("page")
_KEYS = [*TRAINING, *CHOICE, *CELL]
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
"""The browser itself refuses whatever would leave the page."""


def has_plotly() -> bool:
    """Whether the ``html`` extra is installed."""
    return find_spec("plotly") is not None


def report_html(
    frame: pd.DataFrame,
    summary: pd.DataFrame,
    *,
    title: str,
    configs: Mapping[str, Any],
    figures: Sequence[dict[str, Any]],
    images: Mapping[str, bytes],
) -> str:
    """The page.

    Args:
        frame: validated rows.
        summary: ``aggregate.summarise(frame)``.
        title: heading.
        configs: configuration by run_id, as far as known.
        figures: of ``html_figures``, with id, title, caption, data, layout; empty: images.
        images: SVG by file stem, shown where there are no figures.
    """
    named = labels.named(summary)
    data = {
        "lines": _lines(named, frame),
        "configs": {key: configs[key] for key in sorted(set(frame.run_id)) if key in configs},
        "figures": list(figures),
    }
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_read('page.css')}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        _table(named),
        _figures(figures, images),
        "<h2>Where the numbers come from</h2><ul>",
        *(f'<li class="note">{escape(line)}</li>' for line in provenance(frame)),
        "</ul>",
        '<dialog id="runs"><button id="close">close</button><h3 id="run-title"></h3>'
        '<div id="run-list"></div></dialog>',
        f'<script type="application/json" id="data">{_json(data)}</script>',
        f"<script>{_plotly_script()}</script>" if figures else "",
        f"<script>{_read('page.js')}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _json(data: Any) -> str:
    """JSON that no HTML parser can leave: ``</script>`` and ``<!--`` are spelt without ``<``."""
    text = json.dumps(data, allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _lines(named: pd.DataFrame, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """What each line of the table opens: its runs, with where they came from."""
    overall = choose(frame)
    overall = overall.loc[(overall.metric == "accuracy") & (overall.slice_key == "")]
    blind = (overall.status == "failed") & overall.value.isna()
    report = overall.loc[(overall.split == "report") | blind]
    by_line: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in report.drop_duplicates(["run_id", *_KEYS]).to_dict("records"):
        by_line.setdefault(_key(row), []).append(_run(row))
    return [
        {"title": line["where"], "runs": by_line.get(_key(line), [])}
        for line in named.to_dict("records")
    ]


def _key(row: Mapping[Any, Any]) -> tuple[str, ...]:
    return tuple("" if pd.isna(row[name]) else str(row[name]) for name in _KEYS)


def _run(row: Mapping[Any, Any]) -> dict[str, Any]:
    value = "no number" if pd.isna(row["value"]) else f"accuracy {row['value']:.6g}"
    said = f", {row['status']}: {row['fail_reason']}" if row["status"] != "finished" else ""
    facts = [f"run {row['run_id']}", f"{row['steps']} steps", f"{row['wall_s']:.3g} s training"]
    if not pd.isna(row["lr"]):
        facts.append(f"lr {row['lr']:.3g}")
    facts += [f"commit {row['git_sha'][:12]}"] if row["git_sha"] else []
    return {
        "run_id": row["run_id"],
        "seed": row["seed"],
        "result": f"{value} on {row['n']} queries of {row['n_rows']} rows{said}",
        "facts": ", ".join(facts),
        "command": row["command"],
        "config_path": row["config_path"],
    }


def _table(named: pd.DataFrame) -> str:
    header, lines = table_cells(named)
    models = _options(named.arm)
    cells = _options(named.cell)
    head = "".join(
        f'<th scope="col" data-kind="{kind}"><button>{escape(name)}</button></th>'
        for name, kind in header
    )
    rows = "".join(
        f'<tr data-model="{escape(arm)}" data-cell="{escape(cell)}">{_cells(line, index)}</tr>'
        for index, (line, arm, cell) in enumerate(zip(lines, named.arm, named.cell, strict=True))
    )
    return (
        '<div class="bar">'
        '<label>filter<input id="filter" type="search" placeholder="words in any column"></label>'
        f'<label>model<select id="model">{models}</select></label>'
        f'<label>cell<select id="cell">{cells}</select></label>'
        '<span id="count" class="note" role="status"></span></div>'
        f'<div class="scroll"><table id="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'<p class="note">{escape(LEGEND.replace("`", ""))} Click an accuracy for its runs, their '
        "command lines and configurations; click a heading to sort.</p>"
    )


def _options(column: pd.Series) -> str:
    names = dict.fromkeys(column)
    shown = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in names)
    return f'<option value="">all</option>{shown}'


def _cells(line: Sequence[tuple[str, object]], index: int) -> str:
    """Shown text with the value to sort by; the accuracy opens the runs behind it."""
    out = []
    for column, (text, value) in enumerate(line):
        shown = escape(text)
        if column == ACCURACY_COLUMN:
            shown = f'<button data-line="{index}">{shown}</button>'
        kind = ' class="text"' if isinstance(value, str) else ""
        sort = "" if value is None or value is pd.NA or value != value else str(value)
        out.append(f'<td{kind} data-value="{escape(sort)}">{shown}</td>')
    return "".join(out)


def _wide(figure: Mapping[str, Any]) -> str:
    """A figure that brings a height of its own is too tall to stand beside another."""
    return ' class="wide"' if "height" in figure["layout"] else ""


def _figures(figures: Sequence[dict[str, Any]], images: Mapping[str, bytes]) -> str:
    if figures:
        shown = [
            f"<figure{_wide(figure)}><h3>{escape(figure['title'])}</h3>"
            f'<div class="plot" id="{escape(figure["id"])}"></div>'
            f"<figcaption>{escape(figure['caption'])}</figcaption></figure>"
            for figure in figures
        ]
    else:
        shown = [
            f'<figure><img alt="{escape(stem.replace("_", " "))}" '
            f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"></figure>'
            for stem, svg in images.items()
        ]
    return f'<h2>Figures</h2><div class="figures">{"".join(shown)}</div>' if shown else ""
