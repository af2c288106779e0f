"""Receives the responses to the requests of an event loop, many at a time, through one descriptor that it watches."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from headgate._native import NativeOutcome
from headgate.batches._supply import MEMORY_CHECK_S, call_soon_in
from headgate.client._engine import Engine
from headgate.client._request import Native
from headgate.jobs._notebook import await_interruptibly

if TYPE_CHECKING:
    from headgate.client._app import ServedApp

_MAX_TAKEN: Final = 1024
"""The bound of responses that one iteration of the loop takes."""


class LoopResponses:
    """The requests and responses of one event loop. Only the thread of the loop uses it.

    It refers to the loop only while a response is awaited, because it lives as long as the loop does.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        completions = engine.native.completion_queue(watched=True)
        self.completions = completions if completions is not None else engine.raise_closed()
        self._engine = engine
        self._number = 0
        self._waiting: dict[int, asyncio.Future[NativeOutcome]] = {}
        self._is_watched = True
        self._is_check_scheduled = False
        self._is_finishing = False
        loop.add_reader(self.completions.fileno(), self.take_arrived)
        self.take_arrived()

    def send(self, request: Native) -> Coroutine[Any, Any, NativeOutcome]:
        """Returns a coroutine that sends a request, waits, and returns the response.

        Cancelling it cancels the exchange.

        Raises:
            Exception: While waiting: whatever the application of the client raised in place of a response.
        """
        app: ServedApp | None = self._engine.options.app
        return self._send(request) if app is None else self._send_to_app(request, app)

    async def _send_to_app(self, request: Native, app: "ServedApp") -> NativeOutcome:
        with app.called(request) as of_app:
            outcome = await self._send(of_app)
        app.check(outcome)
        return outcome

    async def _send(self, request: Native) -> NativeOutcome:
        number = self._number
        self._number += 1
        ordinal = self.completions.submit(number, [request])
        if ordinal is None:
            self._engine.raise_closed()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[NativeOutcome] = loop.create_future()
        self._waiting[number] = future
        if not self._is_check_scheduled:
            self._is_check_scheduled = True
            loop.call_later(MEMORY_CHECK_S, self._check_memory)
        try:
            return await await_interruptibly(future)
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None and ordinal is not None:
                self.completions.cancel(ordinal)
            self._retire_if_finished(loop)
            raise

    def take_arrived(self) -> None:
        """Sets the results of the futures whose responses have arrived."""
        self._take()
        if self._is_finishing:
            self._retire_if_finished(asyncio.get_running_loop())

    def _take(self) -> bool:
        """Takes responses that have arrived. Returns whether there were any."""
        arrived = self.completions.try_outcomes(_MAX_TAKEN)[0]
        for number, response in arrived:
            future = self._waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(response)
        return bool(arrived)

    def _retire_if_finished(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_finishing and not self._waiting:
            self.retire(loop)

    def finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stops watching once all awaited responses have arrived: no more requests are sent here."""
        self._is_finishing = True
        self._retire_if_finished(loop)

    def _check_memory(self) -> None:
        """Returns memory of outcomes that no task takes, because an awaited response may wait for it."""
        self._is_check_scheduled = bool(self._waiting) and self._is_watched
        if self._is_check_scheduled:
            self.completions.release_memory()
            asyncio.get_running_loop().call_later(MEMORY_CHECK_S, self._check_memory)

    def retire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes the responses that have arrived, fails the other requests, and stops watching. Idempotent."""
        if not self._is_watched:
            return
        self._is_watched = False
        loop.remove_reader(self.completions.fileno())
        while self._take():
            pass
        remaining, self._waiting = self._waiting, {}
        for future in remaining.values():
            if not future.done():
                try:
                    self._engine.raise_closed()
                except RuntimeError as refusal:
                    future.set_exception(refusal)


class Loops:
    """The responses of all event loops that use a client. Any thread may use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process, self._changes = engine.process, engine.changes
        self._responses: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopResponses] = WeakKeyDictionary()
        # One for each process, as in `OpenStreams`. It is held while `_responses` is changed or listed.
        self._locks: dict[int, threading.RLock] = {}

    def of_running_loop(self) -> LoopResponses:
        """Returns the responses of the running loop.

        Raises:
            RuntimeError: The client is closed.
        """
        loop = asyncio.get_running_loop()
        if self._engine.is_closed:
            self._engine.raise_closed()
        if self._changes != self._engine.changes:
            self._start_over()
        responses = self._responses.get(loop)
        return responses if responses is not None else self._add(loop)

    def retire(self, running: asyncio.AbstractEventLoop | None = None) -> None:
        """Fails the awaited requests of all loops, and stops watching; at once for the `running` loop."""
        if self._process == self._engine.process:
            for loop, responses in self._listed():
                if loop is running:
                    responses.retire(loop)
                else:
                    call_soon_in(loop, responses.retire, loop)

    def _add(self, loop: asyncio.AbstractEventLoop) -> LoopResponses:
        responses = LoopResponses(self._engine, loop)
        with self._lock:
            # A loop that was closed while a response was awaited is still referred to.
            for other in list(self._responses):
                if other.is_closed():
                    del self._responses[other]
            self._responses[loop] = responses
        return responses

    def _start_over(self) -> None:
        """Starts with no responses in a fork, or after a mock has started or ended; earlier requests still finish."""
        with self._lock:
            if self._changes == self._engine.changes:
                return  # another thread has done so
            remaining = self._listed() if self._process == self._engine.process else []
            self._responses = WeakKeyDictionary()
            self._process, self._changes = self._engine.process, self._engine.changes
        for loop, responses in remaining:
            call_soon_in(loop, responses.finish, loop)

    def _listed(self) -> list[tuple[asyncio.AbstractEventLoop, LoopResponses]]:
        with self._lock:
            return list(self._responses.items())

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())
