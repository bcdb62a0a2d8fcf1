"""The wheel: complete, importable without the checkout, and its console script works anywhere."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_module_and_every_preset(wheel):
    shipped = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(p.relative_to(CHECKOUT)) for p in CHECKOUT.glob("zoology_bench/**/*.py")}
    presets = {
        f"zoology_bench/{p.relative_to(CHECKOUT)}" for p in CHECKOUT.glob("configs/**/*.yaml")
    }
    assert modules <= shipped
    assert presets <= shipped
    assert not [name for name in shipped if name.startswith("tests/")]


def test_the_console_script_works_from_another_folder(wheel, tmp_path):
    """A clean environment: its own interpreter and the wheel; dependencies come by path.

    Installing torch again would take minutes; ``-m slow`` does that too.
    """
    python = _environment(tmp_path / "venv")
    _pip(python, "install", "-q", "--no-deps", "--no-index", str(wheel))
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _check_script(python.with_name("zoology-bench"), tmp_path, site)


@pytest.mark.slow
def test_a_full_installation_into_a_clean_environment_works(wheel, tmp_path):
    python = _environment(tmp_path / "venv")
    _pip(python, "install", "-q", "-c", str(CHECKOUT / "constraints.txt"), str(wheel))
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    _check_script(python.with_name("zoology-bench"), tmp_path, site)


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def _pip(python: Path, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), *words]
    subprocess.run(command, check=True, capture_output=True, text=True)


def _check_script(script: Path, tmp_path: Path, site: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = [str(script.with_name("python")), "-c", "import zoology_bench as z; print(z.__file__)"]
    found = subprocess.run(
        where, cwd=elsewhere, env=ENV, check=True, capture_output=True, text=True
    )
    assert found.stdout.startswith(str(site)), "the checkout must not shadow the wheel"
    done = subprocess.run(
        [str(script), "run", "experiment=smoke"],
        cwd=elsewhere,
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (elsewhere / "outputs" / "smoke" / "results.csv").is_file()
