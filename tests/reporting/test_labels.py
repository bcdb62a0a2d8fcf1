from tests.reporting.frames import both_splits, failed, frame, row
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.labels import arm_names, cell_names, named


def test_an_arm_always_says_its_initialisation_and_whether_it_is_causal():
    lines = summarise(
        frame(
            both_splits(0.9),
            row(kind="untrained", model="analytic", init="", causal=False, d_model=None, lr=None),
        )
    )
    assert set(arm_names(lines)) == {"attention (recipe)", "analytic [not causal]"}


def test_an_arm_says_more_only_where_two_would_share_a_name():
    lines = summarise(
        frame(
            both_splits(0.9, mixer="base_conv k=3", model="base_conv", run_id="a"),
            both_splits(0.9, mixer="base_conv long", model="base_conv", run_id="b"),
            both_splits(0.9),
            both_splits(0.9, d_model=128, run_id="wide"),
        )
    )
    assert sorted(set(arm_names(lines))) == [
        "attention (recipe)",
        "base_conv (recipe) base_conv k=3",
        "base_conv (recipe) base_conv long",
    ]


def test_arms_that_differ_in_their_config_hash_only_are_told_apart():
    lines = summarise(
        frame(
            both_splits(0.9, model_id="0123456789", run_id="a"),
            both_splits(0.9, model_id="abcdefghij", run_id="b"),
        )
    )
    assert set(arm_names(lines)) == {"attention (recipe) 01234567", "attention (recipe) abcdefgh"}


def test_cells_say_what_differs():
    lines = summarise(
        frame(
            both_splits(0.9),
            both_splits(0.9, filler="disjoint"),
            both_splits(0.9, seq_len=128),
        )
    )
    assert sorted(cell_names(lines)) == [
        "T=128 P=4",
        "T=64 P=4 filler disjoint",
        "T=64 P=4 filler zero",
    ]


def test_cells_that_differ_in_their_rows_only_show_the_data_hash():
    lines = summarise(
        frame(
            both_splits(0.9, data_hash="aaaaaaaaaa", run_id="a"),
            both_splits(0.9, data_hash="bbbbbbbbbb", run_id="b"),
        )
    )
    assert sorted(cell_names(lines)) == ["T=64 P=4 aaaaaaaa", "T=64 P=4 bbbbbbbb"]


def test_a_line_is_named_by_arm_width_and_cell():
    bare = {"kind": "untrained", "model": "analytic", "init": "", "d_model": None, "lr": None}
    lines = named(summarise(frame(both_splits(0.9), row(**bare)))).set_index("arm")
    assert lines["width"].to_dict() == {"attention (recipe)": " D=64", "analytic": ""}
    assert lines["where"].to_dict() == {
        "attention (recipe)": "attention (recipe) D=64 at T=64 P=4",
        "analytic": "analytic at T=64 P=4",
    }


def test_arms_without_a_slice_in_common_are_told_apart():
    sliced = {"slice_key": "distance", "slice_value": "4-5", "hits": 9.0, "n": 10}
    rows = frame(
        failed(mixer="heads=1", run_id="a"),
        both_splits(0.9, mixer="heads=2", run_id="b"),
        row(mixer="heads=2", run_id="b", **sliced),
    )
    names = arm_names(summarise(rows, "distance"))
    assert sorted(names) == ["attention (recipe) heads=1", "attention (recipe) heads=2"]
