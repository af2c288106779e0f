"""The records of clients in the standard `logging`."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

import headgate
from headgate.testing import MockServer
from support.loops import Run

API: Final = "http://api.example"


@pytest.fixture(autouse=True)
def server() -> Iterator[MockServer]:
    with headgate.testing.mock(base_url=API, assert_all_called=False) as server:
        server.get("/ok").respond()
        server.head("/ok").respond(204)
        server.get("/flaky").respond_in_turn([503, 200] * 10)
        server.get("/broken").fails("connection_closed")
        yield server


def client() -> headgate.Client:
    return headgate.Client(base_url=f"{API}/", retries=1, retry_delay=0.001)


def records(caplog: pytest.LogCaptureFixture, level: int) -> list[Any]:
    return [record for record in caplog.records if record.name == "headgate" and record.levelno == level]


def test_each_request_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headgate")
    with client() as here:
        here.get("http://me:secret@api.example/ok?page=2")
        here.get("/flaky")
        with pytest.raises(headgate.ConnectionClosed):
            here.get("/broken")
        with here.stream("GET", "/ok") as response:
            response.read()
        list(here.fetch_many(["/ok", headgate.Request("/ok", method="HEAD")], ordered=True))
    assert [] == records(caplog, logging.DEBUG)
    lines = records(caplog, logging.INFO)
    assert [
        ("GET", f"{API}/ok?page=2", 200, None, 1),
        ("GET", f"{API}/flaky", 200, None, 2),
        ("GET", f"{API}/broken", None, "connection_closed", 2),
        ("GET", f"{API}/ok", 200, None, 1),
        ("GET", f"{API}/ok", 200, None, 1),
        ("HEAD", f"{API}/ok", 204, None, 1),
    ] == [(line.method, line.url, line.status, line.error_kind, line.attempts) for line in lines]
    assert all(0 <= line.elapsed_s < 60 for line in lines)
    texts = [line.getMessage() for line in lines]
    assert texts[1].startswith(f"GET {API}/flaky: 200 OK in 0.")
    assert texts[1].endswith(" s, 2 attempts")
    assert texts[2].startswith(f"GET {API}/broken: connection_closed: the mock says so (2 attempts) in 0.")
    assert "secret" not in "".join(texts)


def test_each_attempt_is_logged_for_debugging(caplog: pytest.LogCaptureFixture, run: Run) -> None:
    caplog.set_level(logging.DEBUG, "headgate")

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, retries=1, retry_delay=0.001) as here:
            await here.get("/flaky")

    with client() as here:
        here.get("/flaky")
    run(main())
    lines = records(caplog, logging.DEBUG)
    assert [(1, 503), (2, 200)] * 2 == [(line.attempt, line.status) for line in lines]
    assert [True, False] * 2 == [line.retry_in_s is not None for line in lines]
    assert all(line.waited_s >= 0 and line.elapsed_s >= 0 for line in lines)
    first, second, *_ = (line.getMessage() for line in lines)
    assert first.startswith(f"GET {API}/flaky: attempt 1: 503 in 0.")
    assert "; over a new connection to in process; " in first
    assert "; the next attempt follows in 0." in first
    assert second.startswith(f"GET {API}/flaky: attempt 2: 200 in 0.")


def test_a_level_counts_from_the_next_call_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headgate")
    with client() as here:
        here.get("/ok")
        assert [] == caplog.records
        caplog.set_level(logging.INFO, "headgate")
        here.get("/ok")
    assert 1 == len(records(caplog, logging.INFO))


def test_a_cancelled_call_is_logged(caplog: pytest.LogCaptureFixture, server: MockServer, run: Run) -> None:
    caplog.set_level(logging.INFO, "headgate")
    begun: list[object] = []

    async def answer(request: object) -> int:
        begun.append(request)
        await asyncio.sleep(3600)
        return 200

    server.get("/slow").gives(answer)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API) as here:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await here.get("/slow")

    run(main())
    [line] = records(caplog, logging.INFO)
    assert ("cancelled", None) == (line.error_kind, line.status)
    assert f"{API}/slow" == line.url


def test_a_program_without_logging_does_not_import_it() -> None:
    program = (
        "import sys, headgate\n"
        "with headgate.Client(retries=0) as client:\n"
        "    try: client.get('http://127.0.0.1:1/')\n"
        "    except headgate.ConnectError: pass\n"
        "print('logging' in sys.modules)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    assert "False\n" == subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_without_a_handler_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with client() as here:
        here.get("/ok")
    assert ("", "") == capfd.readouterr()
