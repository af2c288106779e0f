"""Clients whose functions block, used by several threads as each client recommends."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final

from callers.clients import Get, Target

_OK: Final = 200


@contextmanager
def headgate(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens one client, which all threads share."""
    with import_module("headgate").Client(concurrency=target.at_once) as client:

        def get(number: int) -> bytes:
            response = client.get(target.url(number))
            if response.status_code != _OK:
                raise ValueError(response.status_code)
            content: bytes = response.content
            return content

        yield lambda: get


@contextmanager
def pyreqwest(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens one client, which all threads share."""
    with import_module("pyreqwest.client").SyncClientBuilder().build() as client:

        def get(number: int) -> bytes:
            response = client.get(target.url(number)).build().send()
            if response.status != _OK:
                raise ValueError(response.status)
            content: bytes = response.bytes().to_bytes()
            return content

        yield lambda: get


@contextmanager
def requests(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens a session for each thread, because requests does not promise that threads can share one."""
    with ExitStack() as opened:

        def connect() -> Get:
            session = opened.enter_context(import_module("requests").Session())

            def get(number: int) -> bytes:
                response = session.get(target.url(number))
                if response.status_code != _OK:
                    raise ValueError(response.status_code)
                content: bytes = response.content
                return content

            return get

        yield connect


@contextmanager
def httpx(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens one client, which all threads share, with a connection for each."""
    package = import_module("httpx")
    limits = package.Limits(max_connections=target.at_once, max_keepalive_connections=target.at_once)
    with package.Client(limits=limits) as client:

        def get(number: int) -> bytes:
            response = client.get(target.url(number))
            if response.status_code != _OK:
                raise ValueError(response.status_code)
            content: bytes = response.content
            return content

        yield lambda: get
