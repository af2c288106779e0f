"""`HEAD,GET`: a GET follows a HEAD that a server refuses."""

from pathlib import Path

import pyarrow as pa
import pytest

import headgate
from support.origin import changing
from support.run import headgate as command, serving


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shown(results: pa.Table) -> list[tuple[int, str, int, int]]:
    columns = results.select(["status", "method", "attempts", "received_bytes"]).to_pylist()
    return [tuple(row.values()) for row in columns]


def test_the_result_is_that_of_the_get_where_head_is_refused() -> None:
    # This server responds to HEAD with 501.
    with changing(b"hello") as refusing, serving() as url:
        Path("urls.txt").write_text(f"{refusing.url}/\n{url}/bytes/7\n")
        command("fetch", "urls.txt", "-o", "out", "-X", "HEAD,GET", "-q", check=0)
        of_job = pa.table(headgate.Job.open("out").rows()).sort_by("row")
        assert [(200, "GET", 2, 5), (200, "HEAD", 1, 0)] == shown(of_job)
        assert command("fetch", "urls.txt", "-o", "out", "-X", "HEAD,GET", "-q", check=0).stdout == ""
        assert [("GET", "/")] == [request[:2] for request in refusing.requests]

        table = pa.table({"url": [f"{refusing.url}/", f"{url}/bytes/7"]})
        of_batches = pa.table(headgate.map_batches(table, method="HEAD,GET")).sort_by("row")
        assert [(200, "GET"), (200, "HEAD")] == [row[:2] for row in shown(of_batches)]
        job = headgate.fetch("urls.txt", "again", method="HEAD,GET", no_body=True)
        assert (2, 0) == (job.succeeded, job.failed)


def test_another_list_of_methods_is_refused() -> None:
    (error,) = command("fetch", "http://127.0.0.1:1/", "-o", "out", "-X", "GET,HEAD", "-q", check=2).errors()
    assert "--method 'GET,HEAD' is not an HTTP method: the only list is HEAD,GET, which" in error
