"""Calls `token()` of an `auth` object for the engine."""

import asyncio
import os
from collections.abc import Awaitable
from concurrent.futures import CancelledError, Future
from inspect import isawaitable
from types import CoroutineType
from typing import Final
from weakref import WeakKeyDictionary

from headgate._checks import kind_of
from headgate.jobs._auth import TokenSource

_MAX_TOKEN_S: Final = 60.0
"""The time that an asynchronous `token()` may take."""


class TokenProvider:
    """Returns tokens to the engine, which calls it in one of its threads, one call at a time.

    An asynchronous `token()` runs in an event loop of the client. Without one, each call has a loop of its own.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        # With the process of each: a fork has none of them.
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._has_loops = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenProvider) and self._source is other._source

    def __hash__(self) -> int:
        return hash((TokenProvider, id(self._source)))

    def __call__(self) -> str:
        """Returns a new token.

        Raises:
            TypeError: `token()` returned something else.
            RuntimeError: An asynchronous `token()` was cancelled, or no event loop of the client runs.
            TimeoutError: An asynchronous `token()` took too long.
            Exception: Whatever `token()` raised.
        """
        token: object = self._source.token()
        if isawaitable(token):
            token = self._wait(token)
        if not isinstance(token, str):
            raise TypeError(f"token() must return text, not {kind_of(token)}")
        return token

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Adds an event loop of the client. The first one that runs is used. Any thread may call it."""
        self._has_loops = True
        if self._loops.get(loop) != os.getpid():
            self._loops[loop] = os.getpid()

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        # Other threads may add loops meanwhile, which has no effect on this list.
        loops = (reference() for reference in self._loops.keyrefs())
        of_process = (loop for loop in loops if loop is not None and self._loops.get(loop) == os.getpid())
        return next((loop for loop in of_process if loop.is_running()), None)

    def _wait(self, token: Awaitable[object]) -> object:
        loop = self._running_loop()
        if loop is None and self._has_loops:
            _close(token)
            raise RuntimeError("token() is asynchronous, and no event loop of the client runs any more")
        try:
            if loop is None:
                return asyncio.run(_within_limit(token))
            future = _start(token, loop)
            try:
                # Longer than the call itself may take: then the loop no longer runs.
                return future.result(_MAX_TOKEN_S + 1)
            finally:
                future.cancel()
        except (asyncio.CancelledError, CancelledError):
            raise RuntimeError("token() was cancelled, as at the end of its event loop") from None


def _start(token: Awaitable[object], loop: asyncio.AbstractEventLoop) -> "Future[object]":
    call = _within_limit(token)
    try:
        return asyncio.run_coroutine_threadsafe(call, loop)
    except RuntimeError:
        _close(call)
        _close(token)
        raise


def _close(coroutine: object) -> None:
    """Closes a coroutine that no loop has started, which would be warned of otherwise."""
    if isinstance(coroutine, CoroutineType):
        coroutine.close()


async def _within_limit(token: Awaitable[object]) -> object:
    limit = asyncio.timeout(_MAX_TOKEN_S)
    try:
        async with limit:
            return await token
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"token() took longer than {_MAX_TOKEN_S:g} s") from None
        raise
