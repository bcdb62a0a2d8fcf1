"""The commands of README.md run as they stand; its excerpts say what the committed results say."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from scripts import publish_results
from zoology_bench.cli import main
from zoology_bench.reporting.load import load_results

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LINES = "".join(BLOCKS).replace("\\\n", " ").splitlines()
COMMANDS = [line.partition("#")[0].strip() for line in LINES if line]
MIXER = """
from torch import nn

class MyMixer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.linear(x)
"""


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "my_module.py").write_text(MIXER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def shortened(words: list[str]) -> list[str]:
    """A command's words; trainings are cut short, and of their grids only models stay whole.

    What a command starts is tested here, not what it learns.
    """
    if words[0] != "run":
        return words
    first = [word if word.startswith("model=") else word.partition(",")[0] for word in words]
    return [*first, "trainer.max_steps=3", "trainer.n_report_rows=8", "trainer.n_select_rows=8"]


def test_every_command_of_the_readme_works_in_order(user_folder):
    words = [shlex.split(command) for command in COMMANDS if command.startswith("zoology-bench")]
    assert len(words) >= 11
    for command in words:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shortened(command[1:]))
        assert code == 0, (command, err.getvalue())
        assert out.getvalue(), command


def test_the_two_set_up_commands_exist():
    scripts = [command.split()[1] for command in COMMANDS if command.startswith("bash ")]
    assert scripts == ["scripts/quickstart.sh", "scripts/test.sh"]
    assert all((ROOT / script).is_file() for script in scripts)


@pytest.mark.parametrize("experiment", re.findall(r"<!-- results:(\w+) -->", PAGE))
def test_excerpts_are_fresh(experiment):
    frame = load_results([ROOT / "results" / experiment / "results.csv"])
    text = publish_results.excerpt(frame, experiment)
    assert publish_results.insert_excerpt(PAGE, experiment, text) == PAGE
