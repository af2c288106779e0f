"""`--keep '*'` of NDJSON, whose lines have different columns: the columns stay those of the beginning of the job."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import headgate as package
from support.origin import changing
from support.results import rows, table
from support.run import headgate


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def append(path: str, *lines: Mapping[str, object]) -> None:
    with Path(path).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def kept(out: str) -> list[tuple[object, ...]]:
    return [(row["id"], row["tag"], row["kept_rest"]) for row in rows(Path(out))]


def test_a_job_is_resumed_and_retried_with_the_columns_that_it_began_with() -> None:
    with changing() as origin:
        append("in.ndjson", {"url": f"{origin.url}/1", "id": 1}, {"tag": "x", "url": f"{origin.url}/2", "id": [2]})
        command = ("fetch", "in.ndjson", "-o", "out", "--keep", "*", "--retries", "0", "-q")
        origin.statuses["/2"] = 503
        headgate(*command, check=3)
        begun = [("1", None, None), ("[2]", "x", None)]
        assert begun == kept("out")

        append("in.ndjson", {"new": {"n": 1.0}, "id": 3, "url": f"{origin.url}/3"})
        origin.statuses["/3"] = 503
        headgate(*command, "--allow-append", check=3)
        grown = [*begun, ("3", None, '{"new":{"n": 1.0}}')]
        assert grown == kept("out")

        origin.statuses.clear()
        headgate("retry", "out", "-q", check=0)
        assert grown == kept("out")
        assert [200, 200, 200] == [row["status"] for row in rows(Path("out"))]
        headgate(*command, check=0)

        headgate(*command, "--if-exists", "overwrite", check=0)
        assert "new" in rows(Path("out"))[0], "a job that is started over has the columns of now"


def test_several_inputs_have_the_columns_of_all_in_their_order(server: str) -> None:
    append("a.ndjson", {"url": f"{server}/1", "id": 1})
    append("b.ndjson", {"url": f"{server}/2", "tag": "x", "id": 2})
    package.fetch(["a.ndjson", "b.ndjson"], "out", keep="*")
    assert [("1", None, None), ("2", "x", None)] == kept("out")
    assert ["id", "tag", "kept_rest"] == table(Path("out")).column_names[-3:]


def test_columns_that_the_results_have_of_their_own_are_refused_or_left_out_there(server: str) -> None:
    append("in.ndjson", {"url": f"{server}/hash", "id": 1, "tag": "x", "body": "sent"})
    with pytest.raises(package.InputError, match='the column "body" can\'t be kept: the result has one of its own'):
        package.fetch("in.ndjson", "out", keep="*")
    with pytest.raises(package.InputError, match=r"\"kept_rest\" can't be kept: it is the name of an extracted column"):
        package.fetch("in.ndjson", "out", keep="*", drop="body", body_column="body", extract="kept_rest=$.a")
    package.fetch("in.ndjson", "out", keep="*", drop="body", body_column="body")
    assert [("1", "x", None)] == kept("out")
    assert "sent" == rows(Path("out"))[0]["body"]


def test_what_later_lines_have_goes_to_the_rest_whatever_its_name(server: str) -> None:
    lines = [{"url": f"{server}/{row}", "id": row, "tag": "x"} for row in range(1_000)]
    append("in.ndjson", *lines, {"url": f"{server}/last", "id": 5, "status": 7, "kept_rest": None})
    done = headgate("fetch", "in.ndjson", "-o", "-", "--keep", "*", "--drop", "body,headers", "-q", check=0)
    last = done.rows()[-1]
    assert (200, "5", '{"status":7,"kept_rest":null}') == (last["status"], last["id"], last["kept_rest"])
    assert all(row["kept_rest"] is None for row in done.rows()[:-1])
