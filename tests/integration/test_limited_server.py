"""The local server enforces the limits of its flags, counts refused requests, and logs all requests."""

import http.client
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.run import LONGEST_S, get, serving, stats


def status(url: str, **headers: str) -> tuple[int, str | None]:
    """Returns the status of a response and its headers about when to retry."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=LONGEST_S) as response:  # noqa: S310 - as above
            return response.status, response.headers["Retry-After"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Retry-After"]


def test_each_limit_of_an_api_is_that_of_its_flag() -> None:
    with serving("--api-rate", "2/h", "--api-burst", "2") as server:
        assert [(200, None), (200, None), (429, "3600")] == [status(f"{server}/{row}") for row in range(3)]
        assert {"api_rate": 1} == stats(server)["limits"]
    with serving("--api-tokens", "10/h", "--api-burst", "10") as server:
        headers = {"X-Tokens": "6"}
        assert [200, 429] == [status(f"{server}/{row}", **headers)[0] for row in range(2)]
    with serving("--api-fail-first", "100%") as server:
        assert [500, 200, 500] == [status(f"{server}/{row}")[0] for row in (0, 0, 1)]


def test_first_attempts_fail_in_the_ways_of_the_flags() -> None:
    with serving("--api-html-first", "100%") as server:
        assert ["<!doctype html>", "{"] == [get(f"{server}/price/1")[:length] for length in (15, 1)]
    with serving("--api-cut-first", "100%") as server:
        with pytest.raises(http.client.IncompleteRead):
            get(f"{server}/price/1")
        assert {"api_cut_first": 1} == stats(server)["limits"]


def test_an_api_with_bearer_tokens_needs_one_that_it_issued() -> None:
    with serving("--api-bearer-ttl", "1h") as server:
        token = get(f"{server}/token").strip()
        statuses = [status(f"{server}/1", Authorization=f"Bearer {each}")[0] for each in (token, "secret")]
        assert ([200, 401], 401) == (statuses, status(f"{server}/1")[0])
        assert {"api_bearer_issued": 1, "api_bearer": 2} == stats(server)["limits"]


def test_hosts_have_limits_of_their_own_with_the_flag() -> None:
    with serving("--api-rate", "1/h", "--api-per-host") as server:
        by_name = server.replace("127.0.0.1", "localhost")
        assert [200, 200, 429] == [status(f"{url}/")[0] for url in (server, by_name, server)]


def test_the_capacity_is_that_of_the_flag_until_it_is_changed() -> None:
    with serving("--capacity", "8", "--refuse") as server:
        assert "from now on 9 at once\n" == get(f"{server}/capacity/9")
        assert (200, None) == status(f"{server}/1")


def test_the_log_holds_every_request_when_the_server_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving("--log", str(log)) as server:
        assert [200, 404] == [status(f"{server}/{path}")[0] for path in ("1", "status/404")]
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    host = server.removeprefix("http://")
    assert [["200", host, "/1"], ["404", host, "/status/404"]] == [line[1:] for line in lines]
    assert int(lines[0][0]) <= int(lines[1][0])
