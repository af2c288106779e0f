"""The page for users of other clients: all four versions of a program print the same, and its tables are true."""

import ast
import asyncio
import concurrent.futures
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

import headgate
from support.documents import Example, examples, table
from support.run import serving

PAGE = "docs/coming-from.md"
CLIENTS = {"requests": requests, "httpx": httpx, "aiohttp": aiohttp, "headgate": headgate}


def written(example: Example) -> dict[str, str]:
    """Returns the program for each client."""
    _, *parts = re.split(rf"^# ({'|'.join(CLIENTS)})$", example.code, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    directory = tmp_path_factory.mktemp("coming")
    with serving() as plain, serving("--self-signed", str(directory / "cert.pem")) as tls:
        yield plain, tls.rpartition(":")[2], directory


def run(code: str, server: str) -> str:
    """Returns what a program prints, run as within an `async def`."""
    variables = CLIENTS | {"asyncio": asyncio, "concurrent": concurrent, "server": server, "urllib3": urllib3}
    compiled = compile(code, "<example>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = StringIO()
    with redirect_stdout(printed):
        ended = eval(compiled, variables)  # noqa: S307 - it is our own
        if inspect.iscoroutine(ended):
            asyncio.run(ended)
    return printed.getvalue()


@pytest.mark.parametrize("example", examples(PAGE), ids=lambda example: example.heading)
@pytest.mark.parametrize("client", CLIENTS)
def test_all_four_print_the_same(
    client: str, example: Example, servers: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, tls_port, directory = servers
    monkeypatch.chdir(directory)
    assert list(CLIENTS) == list(written(example))
    assert example.output == run(written(example)[client].replace(":8443", f":{tls_port}"), server)


def urls(server: str) -> dict[str, str]:
    return {
        "nothing listens on the port": "http://127.0.0.1:1/",
        "no response in time": f"{server}/delay/60",
        "the connection is closed before a response": f"{server}/fault/refuse",
        "the body is cut off": f"{server}/fault/content-length-too-long",
        "the body is not the gzip that its header says": f"{server}/fault/corrupt-gzip",
        "too many redirects": f"{server}/redirect/40",
        "the server doesn't speak TLS": server.replace("http:", "https:"),
        "an unknown scheme": "gopher://127.0.0.1/",
        "the proxy can't be reached": f"{server}/hello",
        "the address may not be connected to": "http://169.254.169.254/",
    }


def by_requests(url: str, proxy: str | None) -> None:
    requests.get(url, timeout=(5, 0.5), proxies={"http": proxy} if proxy else None)


def by_httpx(url: str, proxy: str | None) -> None:
    with httpx.Client(timeout=0.5, proxy=proxy, follow_redirects=True) as client:
        client.get(url)


def by_aiohttp(url: str, proxy: str | None) -> None:
    async def get() -> None:
        timeout = aiohttp.ClientTimeout(sock_read=0.5)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, proxy=proxy) as response:
            await response.read()

    asyncio.run(get())


def by_headgate(url: str, proxy: str | None) -> None:
    with headgate.Client(timeout=0.5, retries=0, proxy=proxy or ()) as client:
        client.get(url)


GET: dict[str, Callable[[str, str | None], None]] = {
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
    "headgate": by_headgate,
}
# The cell of a client without such an error is empty.
ERRORS = [
    pytest.param(client, row[0], cell, id=f"{client}-{row[0]}")
    for row in table(PAGE, "what happens", "requests")
    for client, cell in zip(CLIENTS, row[1:], strict=True)
    if cell
]


@pytest.mark.parametrize(("client", "what", "error"), ERRORS)
def test_what_happens_is_the_error_of_the_table(
    client: str, what: str, error: str, servers: tuple[str, str, Path]
) -> None:
    shown = re.findall(r"`(\w+)`", error)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the table has its type
        GET[client](urls(servers[0])[what], "http://127.0.0.1:1" if "proxy" in what else None)
    assert shown[0] == type(raised.value).__name__
    assert set(shown[1:]) <= {base.__name__ for base in type(raised.value).__mro__}


def ask_with(of_client: dict[str, Any], of_call: dict[str, Any]) -> None:
    with headgate.Client(**of_client) as client:  # a type checker would refuse it, too
        client.get("http://127.0.0.1:1/", **of_call)


@pytest.mark.parametrize("row", table(PAGE, "there", "of", "here"), ids=lambda row: f"{row[1]}: {row[0]}")
def test_a_name_of_another_library_is_refused_with_ours(row: list[str]) -> None:
    there, of, here = row
    for name in re.findall(r"`(\w+)`", there):
        of_client, of_call = ({name: 1}, {}) if of == "a client" else ({}, {name: 1})
        with pytest.raises(TypeError) as raised:
            ask_with(of_client, of_call)
        for ours in re.findall(r"`([^`]+)`", here):
            assert ours in str(raised.value)
