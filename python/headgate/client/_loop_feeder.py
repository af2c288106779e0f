"""Gives the engine the body of a request, piece by piece, in a task of the caller's loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headgate._errors import StrayCancellation
from headgate._native import NativeAttempt, NativeOutcome, UploadStream
from headgate.batches._supply import MEMORY_CHECK_S
from headgate.client._content import Source
from headgate.client._engine import Engine
from headgate.client._feeder import BodyFeeder, submit_one
from headgate.client._hook_calls import run_async
from headgate.client._request import NativeRequest
from headgate.client._watch import CallTimer
from headgate.jobs._notebook import await_interruptibly

if TYPE_CHECKING:
    from headgate.client._observer import Observer


MAX_CANCEL_S: Final = 5.0
"""How long a call waits for the end of an iterator that it has cancelled."""


class LoopFeeder:
    """Feeds a body in a task of the running loop.

    Attributes:
        stream: The body as the engine takes it.
    """

    def __init__(self, source: Source) -> None:
        self._feeder = BodyFeeder(source)
        self.stream: UploadStream = self._feeder.stream
        self._may_continue = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def begin(self, notify: Callable[[], None]) -> None:
        """Begins to feed. `notify` is called when that has failed; `check` raises the error then."""

        def done(task: asyncio.Task[None]) -> None:
            has_failed = task.cancelled() or task.exception() is not None
            if has_failed and not self._is_closing:
                notify()

        self._task = asyncio.get_running_loop().create_task(self._feed())
        self._task.add_done_callback(done)

    def wake(self) -> None:
        """Continues after the engine has woken the caller."""
        self._may_continue.set()

    def check(self) -> None:
        """Raises the error of the source, if there was one."""
        if self._task is None or not self._task.done():
            return
        try:
            self._task.result()
        except asyncio.CancelledError as error:
            raise StrayCancellation(
                "the content was cancelled, and the task that waits for the response was not"
            ) from error

    async def aclose(self) -> None:
        """Stops feeding, and waits until the source is closed, at most for a few seconds."""
        self._is_closing = True
        # Not kept: the task has the error that ended it, and that has the frame, and with it this object.
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,), timeout=MAX_CANCEL_S)

    async def _feed(self) -> None:
        try:
            while True:
                self._may_continue.clear()
                if await self._feeder.feed_async():
                    # Other tasks run, too, and a response is noticed before all is read.
                    await asyncio.sleep(0)
                else:
                    await self._may_continue.wait()
        finally:
            await self._feeder.aclose()


async def send_source_async(  # noqa: C901, PLR0915 - one step after another
    engine: Engine, request: NativeRequest, source: Source, observer: "Observer | None" = None
) -> NativeOutcome:
    """Sends a request whose body is a source, and waits for its outcome. The observer gets its attempts.

    Cancelling it cancels the exchange.

    Raises:
        RuntimeError: The client is closed.
        Exception: Whatever reading the source raises.
    """
    feeder = LoopFeeder(source)
    request = request._replace(body=feeder.stream)
    completions, call = submit_one(engine, request, observer, watched=True)
    is_followed = observer is not None and observer.follows_attempts
    loop = asyncio.get_running_loop()
    has_arrived = asyncio.Event()
    has_attempts = asyncio.Event() if is_followed else has_arrived
    outcomes: list[NativeOutcome] = []
    attempts: list[NativeAttempt] = []

    def arrive() -> None:
        has_arrived.set()
        has_attempts.set()

    def take_arrived() -> None:
        outcomes.extend(outcome for _, outcome in completions.try_outcomes(1)[0])
        if is_followed and (ended := completions.take_attempts()):
            attempts.extend(attempt for _, attempt in ended)
            has_attempts.set()
        if outcomes:
            arrive()
        else:
            timer.check()
        feeder.wake()

    def deliver(outcome: NativeOutcome) -> None:
        outcomes.append(outcome)
        arrive()

    timer = CallTimer(loop, call, request, deliver)
    loop.add_reader(completions.fileno(), take_arrived)
    try:
        take_arrived()
        feeder.begin(arrive)
        while not has_arrived.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(MEMORY_CHECK_S):
                    await await_interruptibly(has_attempts.wait())
            completions.release_memory()
            if observer is not None and is_followed:
                has_attempts.clear()
                ended, attempts[:] = [*attempts], []
                await run_async(observer.attempts(ended))
        if observer is not None:
            await run_async(observer.attempts(attempts))
        if not outcomes:
            feeder.check()
        return outcomes[0]
    except BaseException:
        completions.close()
        raise
    finally:
        timer.cancel()
        loop.remove_reader(completions.fileno())
        await feeder.aclose()
