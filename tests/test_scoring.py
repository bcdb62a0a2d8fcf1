import json

import numpy as np
import pytest

from zoology_bench.data.export import export_rows
from zoology_bench.scoring import ADDRESS, score
from zoology_bench.tasks import MQAR

TASK = MQAR(seq_len=32, n_kv_pairs=3, vocab_size=128, filler="disjoint")
N_ROWS, START = 20, 5


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "rows.jsonl"
    export_rows(TASK, "report", 0, START, START + N_ROWS, path)
    return json.loads(path.read_text().splitlines()[0])


@pytest.fixture
def answers():
    return TASK.rows("report", 0, START, START + N_ROWS).answers.numpy()


def write(path, header, predictions, drop=(), **changes):
    address = {name: header[name] for name in ADDRESS if name not in drop}
    address.update({name: value for name, value in changes.items() if name in ADDRESS})
    if path.suffix == ".npz":
        np.savez(path, predictions=predictions, **address)
    else:
        rows = [
            {"row": START + i, "predictions": row.tolist()} for i, row in enumerate(predictions)
        ]
        path.write_text("\n".join(json.dumps(line) for line in [address, *rows]) + "\n")
    return path


@pytest.fixture(params=[".npz", ".jsonl"])
def path(request, tmp_path):
    return tmp_path / f"predictions{request.param}"


def overall(frame, metric):
    return frame[(frame.slice_key == "") & (frame.metric == metric)].iloc[0]


def test_right_answers_score_one_beside_the_floors(path, header, answers):
    frame = score(write(path, header, answers), TASK)
    accuracy = overall(frame, "accuracy")
    assert (accuracy.value, accuracy.n, accuracy.n_rows) == (1.0, 3 * N_ROWS, N_ROWS)
    assert (accuracy.start, accuracy.stop, accuracy.split) == (START, START + N_ROWS, "report")
    assert accuracy.floor_vocab == 1 / 128
    assert accuracy.floor_pairs == pytest.approx(1 / 3)
    assert accuracy.floor_pairs <= accuracy.floor_ceiling < 0.5


def test_wrong_answers_are_told_apart(path, header, answers):
    answers = answers.copy()
    answers[:10, 0] = answers[:10, 1]  # another pair's value
    answers[10:15, 0] = TASK.vocabulary.keys.start
    answers[15:, 0] = -1
    frame = score(write(path, header, answers), TASK)
    assert overall(frame, "accuracy").hits == 2 * N_ROWS
    assert overall(frame, "misbinding").hits == 10
    assert overall(frame, "key_token").hits == 5
    assert overall(frame, "other").hits == 5


def test_rows_may_come_in_any_order(tmp_path, header, answers):
    path = write(tmp_path / "p.jsonl", header, answers)
    first, *rows = path.read_text().splitlines()
    path.write_text("\n".join([first, *reversed(rows)]))
    assert overall(score(path, TASK), "accuracy").value == 1.0


def test_fields_of_the_header_may_be_copied_whole(tmp_path, header, answers):
    path = write(tmp_path / "p.jsonl", header, answers)
    rows = path.read_text().splitlines()[1:]
    path.write_text("\n".join([json.dumps(header), *rows]))
    assert overall(score(path, TASK), "accuracy").value == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_hash": "0" * 64}, "data_hash='0+' but expected"),
        ({"split": "train"}, "split='train' but expected 'report'"),
        ({"seed": 9}, "seed=9 but expected 0"),
        ({"stop": START}, f"start={START}, stop={START} hold no rows"),
    ],
    ids=["foreign-hash", "split", "seed", "empty"],
)
def test_predictions_for_other_rows_are_refused(path, header, answers, changes, message):
    with pytest.raises(ValueError, match=message) as error:
        score(write(path, header, answers, **changes), TASK)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_another_tasks_predictions_are_refused(path, header, answers):
    other = MQAR(seq_len=32, n_kv_pairs=3, vocab_size=128, filler="zero")
    with pytest.raises(ValueError, match="data_hash"):
        score(write(path, header, answers), other)


@pytest.mark.parametrize("name", ADDRESS)
def test_a_missing_field_is_named(path, header, answers, name):
    with pytest.raises(ValueError, match=f"no field '{name}'"):
        score(write(path, header, answers, drop=(name,)), TASK)


def test_partial_files_are_refused(path, header, answers):
    with pytest.raises(ValueError, match=r"\(19, 3\), but rows|row=24 is not answered"):
        score(write(path, header, answers[:-1]), TASK)


def test_a_demanded_range_must_be_met(path, header, answers):
    with pytest.raises(ValueError, match="stop=25 but expected 1000"):
        score(write(path, header, answers), TASK, start=START, stop=1000)


def test_answers_that_are_no_tokens_are_refused(path, header, answers):
    answers = answers.copy()
    answers[4, 2] = 128
    with pytest.raises(ValueError, match=r"row=9 query=2: prediction 128 is no token"):
        score(write(path, header, answers), TASK)


def test_predictions_that_are_no_integers_are_refused(tmp_path, header, answers):
    with pytest.raises(ValueError, match="predictions have dtype float64"):
        score(write(tmp_path / "p.npz", header, answers.astype(float)), TASK)
    with pytest.raises(ValueError, match=r"p\.jsonl:2: predictions must be a list of integers"):
        score(write(tmp_path / "p.jsonl", header, answers.astype(float)), TASK)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"p\.jsonl:4: not a line of JSON"),
        ("[1]", r"p\.jsonl:4: not a JSON object"),
        ('{"row": 5, "predictions": [1, 2, 3]}', r"p\.jsonl:4: row=5 is answered twice"),
        ('{"row": 99, "predictions": [1, 2, 3]}', r"p\.jsonl:4: row=99 is outside"),
        ('{"row": 7, "predictions": [1, 2]}', r"p\.jsonl:4: 2 predictions for 3 queries"),
        ('{"row": "7", "predictions": [1, 2, 3]}', r"p\.jsonl:4: row='7' must be an integer"),
        ('{"row": 7}', r"p\.jsonl:4: predictions must be a list"),
    ],
)
def test_a_broken_line_is_named(tmp_path, header, answers, line, message):
    path = write(tmp_path / "p.jsonl", header, answers)
    lines = path.read_text().splitlines()
    lines[3] = line
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        score(path, TASK)


def test_a_range_larger_than_the_file_is_refused_before_it_is_allocated(tmp_path, header, answers):
    path = write(tmp_path / "p.jsonl", header, answers, stop=10**15)
    with pytest.raises(ValueError, match="answers fewer rows"):
        score(path, TASK)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", b"", "suffix '.csv'; predictions are .jsonl, .npz"),
        ("p.npz", b"not a zip", "not a readable .npz file"),
        ("p.npz", b"\x93NUMPY\x01\x00", "not a readable .npz file"),
        ("p.jsonl", b"", "p.jsonl:1: not a line of JSON"),
        ("p.jsonl", b"\xff\xfe", "p.jsonl:1: not a line of JSON"),
        ("p.jsonl", b"[" * 100_000, "p.jsonl:1: not a line of JSON"),
    ],
)
def test_files_that_are_not_ours_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        score(tmp_path / name, TASK)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.npz: no such file"):
        score(tmp_path / "nowhere.npz", TASK)


def test_pickled_arrays_are_never_loaded(tmp_path, header):
    path = tmp_path / "p.npz"
    np.savez(path, predictions=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a readable"):
        score(path, TASK)


def damaged_member(archive: bytearray) -> None:
    # The deflated bytes start behind the local header; an invalid block type cannot be inflated.
    start = archive.index(b"predictions.npy") + len("predictions.npy")
    archive[start : start + 64] = b"\xff" * 64


def encrypted(archive: bytearray) -> None:
    archive[archive.index(b"PK\x03\x04") + 6] |= 1
    archive[archive.index(b"PK\x01\x02") + 8] |= 1


@pytest.mark.parametrize("harm", [damaged_member, encrypted])
def test_archives_that_cannot_be_read_are_refused(tmp_path, harm):
    path = tmp_path / "p.npz"
    np.savez_compressed(path, predictions=np.arange(5000))
    archive = bytearray(path.read_bytes())
    harm(archive)
    path.write_bytes(archive)
    with pytest.raises(ValueError, match=r"p\.npz: not a readable \.npz file"):
        score(path, TASK)
