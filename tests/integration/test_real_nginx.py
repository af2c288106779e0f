"""Against nginx: every row gets its response, whatever nginx closes, compresses or reloads."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pytest

from support.real_servers import VERSIONS, RealServer, fetched, nginx
from support.results import table
from support.run import headgate

RELOADED_REQUESTS: Final = 100_000
RELOADED_PER_S: Final = 20_000
RELOAD_EVERY_S: Final = 1.0


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_of_nginx_are_what_it_sent(version: str, tmp_path: Path) -> None:
    with nginx(tmp_path) as server:
        found = fetched(tmp_path, server, version, "/[1-500]", "-H", "Accept-Encoding: gzip")
    protocol = {"HTTP/1.1": "HTTP/1.1", "HTTP/2": "HTTP/2.0"}[version.removesuffix(" plain")]
    expected = [(200, f"hello /{number} over {protocol}\n".encode()) for number in range(1, 501)]
    assert expected == [(row["status"], row["body"]) for row in found]
    assert {b"gzip"} == {dict(row["headers"])["content-encoding"] for row in lowered(found)}


def lowered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns headers with names in lower case, as HTTP/2 has them."""
    return [
        {**row, "headers": [(header["name"].lower(), header["value"]) for header in row["headers"]]} for row in found
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_larger_than_any_window_comes_whole(version: str, tmp_path: Path) -> None:
    with nginx(tmp_path, gzip="off") as server:
        found = fetched(tmp_path, server, version, "/large?[1-50]")
        large = (tmp_path / "large").read_bytes()
    assert all(row["body"] == large for row in found)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_that_ends_after_three_requests_loses_no_row(method: str, version: str, tmp_path: Path) -> None:
    with nginx(tmp_path, "keepalive_requests 3;") as server:
        found = fetched(tmp_path, server, version, "/[1-2000]", "-c", "20", "-X", method, "--retries", "0")
    assert {200} == {row["status"] for row in found}
    assert {1} == {row["attempts"] for row in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_connections_that_end_after_a_second_of_rest_lose_no_row(method: str, version: str, tmp_path: Path) -> None:
    # Ten connections that are idle for about a second each time: as long as nginx waits.
    with nginx(tmp_path, "keepalive_timeout 1s;") as server:
        flags = ["-c", "10", "-X", method, "--retries", "0", "--rate", "10/s", "--burst", "1"]
        found = fetched(tmp_path, server, version, "/[1-60]", *flags)
    assert {200} == {row["status"] for row in found}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_redirect_of_nginx_is_followed(version: str, tmp_path: Path) -> None:
    with nginx(tmp_path) as server:
        (row,) = fetched(tmp_path, server, version, "/moved")
    assert (200, b"hello /there") == (row["status"], row["body"][:12])
    assert row["final_url"].endswith("/there")


@contextmanager
def reloading(server: RealServer) -> Iterator[list[float]]:
    """Reloads the configuration every second until the block is left; yields a list that grows by one each time."""
    ended, reloads = threading.Event(), []

    def reload() -> None:
        while not ended.wait(RELOAD_EVERY_S):
            server.process.send_signal(signal.SIGHUP)
            reloads.append(RELOAD_EVERY_S)

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        yield reloads
    finally:
        ended.set()
        thread.join()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
def test_reloads_under_load_fail_no_row(version: str, tmp_path: Path) -> None:
    with nginx(tmp_path, "keepalive_requests 1000;") as server, reloading(server) as reloads:
        url, needed = server.flags(version)
        flags = ["-c", "100", "--rate", f"{RELOADED_PER_S}/s", "--no-body"]
        headgate("fetch", f"{url}/[1-{RELOADED_REQUESTS}]", "-o", tmp_path / "out", *needed, *flags, check=0)
        assert len(reloads) >= RELOADED_REQUESTS / RELOADED_PER_S / RELOAD_EVERY_S - 2
    results = table(tmp_path / "out")
    assert RELOADED_REQUESTS == results.num_rows
    assert 0 == pc.sum(pc.is_valid(results["error"])).as_py()
    assert {200} == set(pc.unique(results["status"]).to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
def test_connections_that_end_after_a_millisecond_lose_no_request_that_can_t_be_sent_twice(
    version: str, tmp_path: Path
) -> None:
    at_once = 50
    with nginx(tmp_path, "keepalive_timeout 1ms;") as server:
        url, needed = server.flags(version)
        flags = ["-c", str(at_once), "-X", "POST", "--retries", "0"]
        headgate("fetch", f"{url}/[1-10000]", "-o", tmp_path / "out", *needed, *flags, check=None)
    results = table(tmp_path / "out")
    assert 10_000 == results.num_rows
    lost = results.filter(pc.is_valid(results["error"]))
    # Over HTTP/2, the server says which requests it has not processed. Over HTTP/1.1, a client can't know
    # if the machine delays the closing of connections, which look as if they stayed: once for each lane.
    assert lost.num_rows <= (0 if version.startswith("HTTP/2") else at_once)
    assert {"connection_closed"} >= set(pc.unique(lost["error"]).to_pylist())
    assert {200} == set(pc.unique(results.filter(pc.is_null(results["error"]))["status"]).to_pylist())
    assert {1} == set(pc.unique(results["attempts"]).to_pylist())
