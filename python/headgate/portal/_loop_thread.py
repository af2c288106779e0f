"""A loop on a thread of its own, for a portal that is given none."""

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from headgate.portal._crossing import Crossing

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class LoopThread:
    """Runs from the start on, until it is closed.

    The thread is a daemon, so that a program can end whose portal nobody has closed; before the interpreter does, calls
    are cancelled and waited for.
    """

    def __init__(self, loop_factory: LoopFactory | None) -> None:
        begun: Future[Crossing] = Future()
        self._closing: asyncio.Event | None = None
        self._cancels = False
        self._thread = threading.Thread(
            target=self._run, args=(loop_factory, begun), name="headgate-portal", daemon=True
        )
        self._thread.start()
        self.crossing = begun.result()
        _open.add(self)

    def close(self, *, cancel: bool) -> None:
        """Ends the loop, and waits until it has ended. A second time it only waits, or cancels now."""
        crossing = self.crossing
        if crossing.is_forked:
            return
        crossing.refusal = crossing.refusal or "the portal is closed"
        with suppress(RuntimeError):  # the loop is closed
            crossing.loop.call_soon_threadsafe(self._close, cancel)
        self._thread.join()
        _open.discard(self)

    # -- on the loop's thread

    def _run(self, loop_factory: LoopFactory | None, begun: "Future[Crossing]") -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._live(begun))
        except BaseException as error:  # noqa: BLE001 - raised where the portal is made
            if not begun.done():
                begun.set_exception(error)
        finally:
            if begun.exception() is None:
                begun.result().end("the event loop has ended")

    async def _live(self, begun: "Future[Crossing]") -> None:
        self._closing = asyncio.Event()
        crossing = Crossing(asyncio.get_running_loop())
        crossing.open()
        begun.set_result(crossing)
        del begun
        await self._closing.wait()
        await crossing.close(cancel=self._cancels)

    def _close(self, cancel: bool) -> None:  # noqa: FBT001 - `call_soon_threadsafe` takes no keywords
        if cancel:
            self._cancels = True
            self.crossing.cancel_all()
        if self._closing is not None:
            self._closing.set()


_open: set[LoopThread] = set()


@atexit.register
def _close_all() -> None:
    """Ends what nobody has ended, while there is still an interpreter in which it can clean up."""
    for thread in tuple(_open):
        thread.close(cancel=True)
