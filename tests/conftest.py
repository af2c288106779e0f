"""Fixtures; an `async def` test runs on the virtual clock, and fails if it leaves a task running or a warning."""

import asyncio
import inspect
import os
import signal
from collections.abc import Iterator

import pytest
import uvloop

import headgate
import headgate.testing
from headgate.testing import MockServer
from support.loops import Run
from support.quiet import Spy, run_quietly
from support.run import serving

# Every job would note that it ignores them.
for name in {name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")}:
    del os.environ[name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Gives signals their default handlers before each test.

    A shell starts background jobs with SIGINT and SIGHUP ignored, and processes that tests start would inherit that.
    Spark replaces the handler of SIGINT and leaves its own when its session ends; a job leaves such a handler alone.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.function
    if not inspect.iscoroutinefunction(test):
        return None
    run_quietly(test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}))
    return True


@pytest.fixture
def spy() -> Spy:
    return Spy()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Returns the URL of a local server that responds at once."""
    with serving() as url:
        yield url


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Returns a function that runs a coroutine in an event loop of its own."""
    running: Run = request.param
    return running


@pytest.fixture
def mock() -> Iterator[MockServer]:
    """Returns a mock that serves all hosts in place of the network."""
    with headgate.testing.mock() as mock:
        yield mock


@pytest.fixture
def client() -> Iterator[headgate.Client]:
    with headgate.Client(retry_delay=0.001) as client:
        yield client
