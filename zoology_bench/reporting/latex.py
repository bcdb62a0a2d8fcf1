"""Tables for papers: booktabs, every text escaped."""

from collections.abc import Iterable

from zoology_bench.reporting.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "†": r"$^\dagger$",
    "*": r"$^*$",
    "×": r"$\times$",
}


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def latex_table(table: Table, caption: str, label: str) -> str:
    """One ``table`` environment; needs the packages booktabs and graphicx.

    Args:
        table: header and lines; the first column is left-aligned, the others right.
        caption: escaped here.
        label: of ``\\ref``, after ``tab:``.
    """
    header, lines = table
    rows = [" & ".join(map(escape, line)) + r" \\" for line in lines]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape(caption)}}}",
            rf"\label{{tab:{label}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            " & ".join(map(escape, header)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def latex_page(tables: Iterable[str]) -> str:
    """Several tables as one file to ``\\input``."""
    head = r"% \usepackage{booktabs,graphicx}"
    return "\n\n".join([head, *tables]) + "\n"
