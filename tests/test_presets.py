"""``zoology-bench ls``: every preset is listed and says what it is."""

import pytest

from zoology_bench.presets import PRESET_GROUPS, config_dir, description, listing

SHIPPED = [path for group in PRESET_GROUPS for path in (config_dir() / group).glob("*.yaml")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_preset_says_what_it_is(path):
    assert len(description(path).split()) >= 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# One thing. Another.\nname: a", "One thing"),
        ("# As eq. 19 has\n# it, at .5. More\n", "As eq. 19 has it, at .5"),
        ("# @package _global_\n# Claim:    holds\n#           here.\n# Command: x\n", "holds here"),
        ("# a; b; ...\n", "a; b; ..."),
        ("name: a\n# Later.\n", ""),
    ],
)
def test_description_is_the_first_sentence_of_the_opening_comment(tmp_path, text, said):
    (tmp_path / "p.yaml").write_text(text)
    assert description(tmp_path / "p.yaml") == said


def test_listing_names_presets_of_every_folder_once_and_the_first_folder_wins(tmp_path):
    for root, said in (("a", "First"), ("b", "Second")):
        (tmp_path / root / "task/distance").mkdir(parents=True)
        (tmp_path / root / "task/both.yaml").write_text(f"# {said}.\n")
    (tmp_path / "b/task/distance/mine.yaml").write_text("{}\n")
    assert listing([tmp_path / "a", tmp_path / "b"]).splitlines() == [
        "task=both           First",
        "task/distance=mine",
    ]
