"""An event loop in a separate thread, for a portal without a loop, and for `headgate.map`."""

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

from headgate.portal._call_queue import CallQueue

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class LoopThread:
    """Runs an event loop in a separate thread until it is closed.

    The thread is a daemon, so that a program can end without closing it. Before the interpreter exits, running calls
    are cancelled and awaited.

    Attributes:
        queue: Passes calls to the loop.
        failure: The exception that ended the loop, such as a `SystemExit` in a task.
    """

    def __init__(
        self, loop_factory: LoopFactory | None, name: str, finish: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Starts the thread and the loop.

        Args:
            loop_factory: Creates the loop; `None` is asyncio's own factory.
            name: The name of the thread.
            finish: Is awaited in the loop at its end, before running calls are awaited.

        Raises:
            Exception: The loop could not be created.
        """
        begun: Future[CallQueue] = Future()
        self.failure: BaseException | None = None
        self._closing: asyncio.Event | None = None
        self._cancels = False
        self._finish = finish
        self._thread = threading.Thread(target=self._run, args=(loop_factory, begun), name=name, daemon=True)
        self._thread.start()
        self.queue = begun.result()
        _open.add(self)

    @property
    def is_current(self) -> bool:
        """Whether this code runs in the thread of the loop."""
        return threading.current_thread() is self._thread

    def close(self, *, cancel: bool) -> None:
        """Ends the loop and waits for its end, except in its own thread.

        A second call only waits, or cancels what the first did not.
        """
        queue = self.queue
        if queue.is_forked:
            return
        queue.refusal = queue.refusal or "the portal is closed"
        with suppress(RuntimeError):  # the loop is closed
            queue.loop.call_soon_threadsafe(self._close, cancel)
        if not self.is_current:
            self._thread.join()
        _open.discard(self)

    # -- on the loop's thread

    def _run(self, loop_factory: LoopFactory | None, begun: "Future[CallQueue]") -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._run_until_closed(begun))
        except BaseException as error:  # noqa: BLE001 - raised by the constructor, or by a waiting call
            self.failure = error
            if not begun.done():
                begun.set_exception(error)
        finally:
            if begun.exception() is None:
                begun.result().shut_down("the event loop has ended")

    async def _run_until_closed(self, begun: "Future[CallQueue]") -> None:
        self._closing = asyncio.Event()
        queue = CallQueue(asyncio.get_running_loop())
        queue.open()
        begun.set_result(queue)
        del begun
        try:
            await self._closing.wait()
        finally:
            if self._finish is not None:
                await self._finish()
        await queue.close(cancel=self._cancels)

    def _close(self, cancel: bool) -> None:  # noqa: FBT001 - `call_soon_threadsafe` takes no keywords
        if cancel:
            self._cancels = True
            self.queue.cancel_all()
        if self._closing is not None:
            self._closing.set()


_open: set[LoopThread] = set()


@atexit.register
def _close_all() -> None:
    """Closes the loops that are still open while the interpreter runs, so that tasks can clean up."""
    for thread in tuple(_open):
        thread.close(cancel=True)
