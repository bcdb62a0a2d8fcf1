"""Python on the pages runs, in order, and prints what the page says it prints."""

from pathlib import Path

import pytest
import torch

from tests.markdown import python_blocks, run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / page for page in ("tasks.md", "theorem_4_4.md"))]
WITH_PYTHON = [page for page in PAGES if python_blocks(page.read_text())]
WITH_SLOW = [page for page in WITH_PYTHON if any(b.slow for b in python_blocks(page.read_text()))]


def execute(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, slow: bool) -> None:
    monkeypatch.chdir(folder)
    torch.set_num_threads(1)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in python_blocks(page.read_text()):
        if block.slow and not slow:
            continue
        printed = run(block, page, namespace)
        if block.output is not None:
            assert printed == block.output, f"{page.name}:{block.line} prints something else"


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch):
    execute(page, tmp_path, monkeypatch, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_SLOW, ids=lambda page: page.name)
def test_slow_python_blocks_too(page, tmp_path, monkeypatch):
    execute(page, tmp_path, monkeypatch, slow=True)


def test_blocks_are_found_with_their_output_and_marks():
    shown = "a\n```python\nprint(1)\n```\n\n```text output\n1\n```\n"
    page = shown + "```python slow\nx\n```\n```bash\ny\n```\n"
    first, second = python_blocks(page)
    assert (first.line, first.code, first.output, first.slow) == (3, "print(1)\n", "1\n", False)
    assert (second.code, second.output, second.slow) == ("x\n", None, True)
    assert python_blocks("no fence at all") == []
