"""Where the YAML presets are, and what the opening comment of each says of it."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

PRESET_GROUPS = (
    *("experiment", "task", "task/distance", "model", "model/mixer"),
    *("trainer", "logger", "launcher", "cell"),
)
_CLAIM = "Claim:"
"""Opens the comment of an experiment; the lines after the claim open with other words like it."""


def config_dir() -> Path:
    """Absolute folder of the YAML presets: inside the wheel, or the checkout's configs/."""
    packaged = Path(str(files("zoology_bench"))) / "configs"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / "configs"


def preset_folders(config_dirs: Sequence[str]) -> list[Path]:
    """The shipped presets' folder, then the given ones.

    Raises:
        ValueError: one of them is not a folder.
    """
    folders = [Path(folder) for folder in config_dirs]
    for given, folder in zip(config_dirs, folders, strict=True):
        if not given.strip() or not folder.is_dir():
            raise ValueError(f"--config-dir {given!r} is not a folder")
    return [config_dir(), *folders]


def listing(roots: Sequence[Path]) -> str:
    """One line a preset, ``group=name`` and a sentence, over folders of presets (first wins)."""
    found: dict[str, str] = {}
    for group in PRESET_GROUPS:
        files = [path for root in reversed(roots) for path in (root / group).glob("*.yaml")]
        files = [path for path in files if path.is_file()]
        paths = {path.stem: path for path in files}
        found |= {f"{group}={name}": description(paths[name]) for name in sorted(paths)}
    width = max(map(len, found), default=0)
    return "\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in found.items())


def description(path: Path) -> str:
    """First sentence of a preset's opening comment; empty where it has none."""
    words: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("#"):
            break
        comment = line.removeprefix("#").strip()
        if comment.startswith("@package"):
            continue
        heading = comment.partition(" ")[0].endswith(":")
        if heading and words:
            break
        words += comment.removeprefix(_CLAIM).split()
    return _first_sentence(" ".join(words))


def _first_sentence(text: str) -> str:
    # "eq. 19" does not end a sentence, and neither does "...".
    return re.split(r"(?<!\.)\.(?:\s+(?=[A-Z])|$)", text, maxsplit=1)[0]
