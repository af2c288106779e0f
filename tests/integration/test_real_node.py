"""Against Node's HTTP/2, which changes the number of concurrent streams during a connection."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.real_servers import RealServer, fetched, node
from support.results import rows
from support.run import headgate

BOTH_HTTP2: Final = ("HTTP/2", "HTTP/2 plain")


@pytest.fixture(scope="module")
def node_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with node(tmp_path_factory.mktemp("node")) as server:
        yield server


@pytest.mark.parametrize("version", BOTH_HTTP2)
def test_streams_of_node_end_as_they_should(version: str, node_server: RealServer, tmp_path: Path) -> None:
    found = fetched(tmp_path, node_server, version, "/bytes/[0-300]000", "-c", "50")
    assert [number * 1000 for number in range(301)] == [len(row["body"]) for row in found]


@pytest.mark.parametrize("version", BOTH_HTTP2)
def test_node_gets_bodies_as_they_are(version: str, node_server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"x" * 1_000_000)
    flags = ["-X", "POST", "-d", f"@{tmp_path / 'body'}", "-c", "10"]
    found = fetched(tmp_path, node_server, version, "/echo/[1-20]", *flags)
    assert {b"x" * 1_000_000} == {row["body"] for row in found}


@pytest.mark.parametrize("version", BOTH_HTTP2)
def test_trailers_of_node_are_read_over(version: str, node_server: RealServer, tmp_path: Path) -> None:
    found = fetched(tmp_path, node_server, version, "/trailers/[1-100]", "-c", "20", "--retries", "0")
    assert {b"Hello, World!"} == {row["body"] for row in found}


@pytest.mark.parametrize("version", BOTH_HTTP2)
def test_a_smaller_number_of_streams_counts_from_its_announcement(version: str, tmp_path: Path) -> None:
    with node(tmp_path) as server:
        url, needed = server.flags(version)
        paths = ["narrow", *(f"hello/{number}" for number in range(2000)), "seen"]
        (tmp_path / "urls.txt").write_text("".join(f"{url}/{path}\n" for path in paths))
        headgate("fetch", tmp_path / "urls.txt", "-o", tmp_path / "out", *needed, "-c", "20", check=0)
        found = rows(tmp_path / "out")
    assert {None} == {row["error"] for row in found}
    seen = json.loads(found[-1]["body"])
    assert seen["mostAfterSettings"] <= 1, seen
