"""Runnable blocks of a Markdown page: what a reader would paste, and what it should print.

``python -m tests.markdown docs/tasks.md`` runs a page and rewrites the outputs it shows.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One ``python`` block and the ``text output`` block right after it, if there is one."""

    line: int
    code: str
    output: str | None
    slow: bool
    """Marked ``python slow``: too long for every test run; nothing later may depend on it."""


def python_blocks(page: str) -> list[Block]:
    """The page's blocks in order."""
    fences = list(_FENCE.finditer(page))
    blocks = []
    for fence, following in zip(fences, [*fences[1:], None], strict=False):
        kind, *marks = fence["info"].split() or [""]
        if kind != "python":
            continue
        output = None
        if following is not None and following["info"].split() == ["text", "output"]:
            output = following["body"]
        line = page.count("\n", 0, fence.start()) + 2
        blocks.append(Block(line, fence["body"], output, "slow" in marks))
    return blocks


def run(block: Block, path: Path, namespace: dict[str, object]) -> str:
    """Execute a block as the page's next cell; returns what it printed."""
    printed = io.StringIO()
    # Blank lines first, so that a traceback names the page's own line.
    code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def refreshed(path: Path) -> str:
    """The page with every shown output replaced by what its block prints now, slow ones too."""
    page = path.read_text()
    namespace: dict[str, object] = {"__name__": "page"}
    for block in python_blocks(page):
        printed = run(block, path, namespace)
        if block.output is not None:
            shown = f"{block.code}```\n\n```text output\n"
            assert page.count(shown + block.output) == 1, f"{path}:{block.line}"
            page = page.replace(shown + block.output, shown + printed)
    return page


if __name__ == "__main__":
    for name in sys.argv[1:]:
        target = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = refreshed(target)
        temporary = target.with_suffix(".tmp")
        temporary.write_text(text)
        os.replace(temporary, target)
