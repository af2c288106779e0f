"""The ledger finds every kind of mistake in results: a checker that can't fail proves nothing."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.ledger import Ending, mistakes, ordinals, parts, twice

Rows = Sequence[tuple[int, Ending]]
Write = Callable[[Path, str, Rows], None]

GOOD = Ending("http://a/0", 200, None, b"zero")
EMPTY = Ending("http://a/1", 404, None, b"")
BUSY = Ending("http://a/2", 503, None, b"busy \xff")
CLOSED = Ending("http://a/3", 200, "connection_closed", None)
EXPECTED = [GOOD, EMPTY, BUSY, CLOSED]
SUCCEEDED: Rows = [(0, GOOD), (1, EMPTY)]
FAILED: Rows = [(2, BUSY), (3, CLOSED)]


def parquet(directory: Path, name: str, rows: Rows) -> None:
    columns = {name: [getattr(ending, name) for _, ending in rows] for name in ("url", "status", "error", "body")}
    table = pa.table({"row": [row for row, _ in rows], **columns})
    pq.write_table(table, directory / f"{name}.parquet")


def ndjson(directory: Path, name: str, rows: Rows) -> None:
    def line(row: int, ending: Ending) -> str:
        fields = {"row": row, "url": ending.url, "status": ending.status, "error": ending.error, "body": None}
        if ending.body is not None:
            try:
                fields["body"] = ending.body.decode()
            except UnicodeDecodeError:
                fields["body_base64"] = base64.b64encode(ending.body).decode()
        return json.dumps(fields) + "\n"

    (directory / f"{name}.ndjson").write_text("".join(line(*row) for row in rows))


@pytest.fixture(params=[parquet, ndjson])
def write(request: pytest.FixtureRequest) -> Write:
    writer: Write = request.param
    return writer


def found(directory: Path, write: Write, succeeded: Rows, failed: Rows) -> list[str]:
    write(directory, "part-00000001", succeeded)
    write(directory, "failed-00000001", failed)
    return mistakes(directory, EXPECTED)


def test_right_results_have_no_mistakes(tmp_path: Path, write: Write) -> None:
    assert [] == found(tmp_path, write, SUCCEEDED, FAILED)
    assert [[2, 3], [0, 1]] == [ordinals(part) for part in parts(tmp_path)]


def test_a_missing_row_is_named(tmp_path: Path, write: Write) -> None:
    assert ["row 1 is missing"] == found(tmp_path, write, SUCCEEDED[:1], FAILED)


def test_a_row_that_is_there_twice_is_named(tmp_path: Path, write: Write) -> None:
    write(tmp_path, "part-00000002", SUCCEEDED[1:])
    assert ["row 1 stands there 2 times"] == found(tmp_path, write, SUCCEEDED, FAILED)
    assert [1] == twice(tmp_path)


def test_an_unexpected_row_is_named(tmp_path: Path, write: Write) -> None:
    expected = ["failed-00000001.", "part-00000001."]
    wrong = found(tmp_path, write, [*SUCCEEDED, (4, GOOD)], [*FAILED, (-1, BUSY)])
    assert [f"{expected[0]}{suffix(write)}: row -1 is not expected"] == wrong[:1]
    assert [f"{expected[1]}{suffix(write)}: row 4 is not expected"] == wrong[1:]


@pytest.mark.parametrize(
    ("expected", "row"),
    [
        ("url is 'http://a/1', not 'http://a/0'", Ending("http://a/1", 200, None, b"zero")),
        ("status is 201, not 200", Ending("http://a/0", 201, None, b"zero")),
        ("error is 'timeout', not None", Ending("http://a/0", 200, "timeout", b"zero")),
        ("body is b'zer', not b'zero'", Ending("http://a/0", 200, None, b"zer")),
        ("body is None, not b'zero'", Ending("http://a/0", 200, None, None)),
    ],
)
def test_a_row_that_became_something_else_is_named(tmp_path: Path, write: Write, expected: str, row: Ending) -> None:
    wrong = found(tmp_path, write, [(0, row), (1, EMPTY)], FAILED)
    assert [f"part-00000001.{suffix(write)}: row 0: {expected}"] == wrong


def test_a_row_in_the_wrong_series_is_named(tmp_path: Path, write: Write) -> None:
    wrong = found(tmp_path, write, [*SUCCEEDED, FAILED[0]], FAILED[1:])
    assert [f"part-00000001.{suffix(write)}: row 2 belongs into failed-*"] == wrong


def test_half_a_file_is_named_and_its_rows_are_missing(tmp_path: Path, write: Write) -> None:
    write(tmp_path, "part-00000001", SUCCEEDED)
    part = tmp_path / f"part-00000001.{suffix(write)}"
    part.write_bytes(part.read_bytes()[:-20])
    write(tmp_path, "failed-00000001", FAILED)
    wrong = mistakes(tmp_path, EXPECTED)
    assert wrong[0].startswith(f"{part.name} can't be read: ")
    assert ["row 0 is missing", "row 1 is missing"] == wrong[1:]


def test_left_over_files_are_named(tmp_path: Path, write: Write) -> None:
    (tmp_path / "_headgate" / "tmp").mkdir(parents=True)
    (tmp_path / "_headgate" / "tmp" / "part-00000002.parquet").touch()
    (tmp_path / "part-1.parquet.tmp").touch()
    expected = ["_headgate/tmp/part-00000002.parquet is left over", "part-1.parquet.tmp is left over"]
    assert expected == found(tmp_path, write, SUCCEEDED, FAILED)


def test_of_many_mistakes_the_first_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    wrong = mistakes(tmp_path, [GOOD] * 25)
    assert (11, "row 9 is missing", "and 15 more") == (len(wrong), wrong[9], wrong[10])


def suffix(write: Write) -> str:
    return "parquet" if write is parquet else "ndjson"
