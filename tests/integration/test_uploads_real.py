"""Bodies that are files or are made while they are sent, against the servers of Go, Node and nginx, and over TLS."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import headgate
from support.real_servers import VERSIONS, RealServer, go, nginx, node

BODY: Final = os.urandom(1_000_003)


@pytest.fixture(scope="module")
def go_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with go(tmp_path_factory.mktemp("go")) as server:
        yield server


@pytest.fixture(scope="module")
def node_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with node(tmp_path_factory.mktemp("node")) as server:
        yield server


def arguments_for(server: RealServer, version: str) -> dict[str, Any]:
    """Returns the options of a client that uses a version of HTTP."""
    known: dict[str, dict[str, Any]] = {
        "HTTP/1.1": {"base_url": server.secure, "cacert": str(server.cacert), "http1_1": True},
        "HTTP/1.1 plain": {"base_url": server.plain},
        "HTTP/2": {"base_url": server.secure, "cacert": str(server.cacert)},
        "HTTP/2 plain": {"base_url": server.prior, "http2_prior_knowledge": True},
    }
    return known[version]


def pieces() -> Iterator[bytes]:
    for start in range(0, len(BODY), 7777):
        yield BODY[start : start + 7777]


CONTENTS: Final[dict[str, Callable[[Path], Any]]] = {
    "generator": lambda _: pieces(),
    "one large piece": lambda _: iter((BODY,)),
    "path": lambda path: path,
    "file": lambda path: path.open("rb"),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_go_gets_each_body_whole_over_each_version(
    version: str, content: str, go_server: RealServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(BODY)
    with headgate.Client(**arguments_for(go_server, version)) as client:
        made = CONTENTS[content](tmp_path / "file")
        response = client.post("/echo", content=made)
        if hasattr(made, "close"):
            made.close()
    assert (BODY, version.removesuffix(" plain")) == (response.content, response.http_version.removesuffix(".0"))


@pytest.mark.parametrize("version", ["HTTP/2", "HTTP/2 plain"])
def test_node_gets_a_stream_whole_with_and_without_its_length(version: str, node_server: RealServer) -> None:
    with headgate.Client(**arguments_for(node_server, version)) as client:
        for headers in ({}, {"Content-Length": str(len(BODY))}):
            assert BODY == client.post("/echo/1", content=pieces(), headers=headers).content
        assert b"" == client.post("/echo/2", content=iter(())).content
        with pytest.raises(headgate.InvalidRequest, match="another length than its content-length of 7"):
            client.post("/echo/3", content=pieces(), headers={"Content-Length": "7"})
        assert BODY == client.post("/echo/4", content=pieces()).content


@pytest.mark.parametrize("version", VERSIONS)
def test_go_sees_no_whole_body_if_the_iterator_fails(version: str, go_server: RealServer) -> None:
    def failing() -> Iterator[bytes]:
        yield BODY
        raise KeyError("mine")

    with headgate.Client(**arguments_for(go_server, version)) as client:
        for _ in range(3):
            with pytest.raises(KeyError, match="mine"):
                client.post("/echo", content=failing())
        assert BODY == client.post("/echo", content=pieces()).content


@pytest.mark.parametrize("version", VERSIONS)
def test_many_tasks_stream_to_go(version: str, go_server: RealServer) -> None:
    async def made(number: int) -> AsyncIterator[bytes]:
        for _ in range(50):
            await asyncio.sleep(0)
            yield f"{number:05}".encode() * 500

    async def main() -> None:
        async with headgate.AsyncClient(**arguments_for(go_server, version), concurrency=20) as client:
            responses = await asyncio.gather(*(client.post("/echo", content=made(number)) for number in range(60)))
        assert [f"{number:05}".encode() * 25_000 for number in range(60)] == [each.content for each in responses]

    asyncio.run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_nginx_refuses_a_large_stream_early(version: str, tmp_path: Path) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 65_536

    with (
        nginx(tmp_path, "client_max_body_size 1m;") as server,
        headgate.Client(**arguments_for(server, version), timeout=20) as client,
    ):
        response = client.post("/large", content=endless())
    assert response.status_code in {405, 413}
    assert taken < 10_000
