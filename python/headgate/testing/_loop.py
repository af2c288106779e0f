"""The event loop of a mock, whose timers follow a virtual clock."""

import asyncio
import selectors

from headgate._native import MockNetwork


class MockLoop(asyncio.SelectorEventLoop):
    """An event loop that goes by the clock of engines."""

    def __init__(self, network: MockNetwork) -> None:
        super().__init__(_Selector(network))

    def time(self) -> float:
        """Returns the time in seconds."""
        return MockNetwork.time()


class _Selector(selectors.DefaultSelector):
    """A selector whose timeouts end when their time has come on a virtual clock, if there is one."""

    def __init__(self, network: MockNetwork) -> None:
        super().__init__()
        self._network = network

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits for events, as its base class does."""
        # Its next timer is replaced, and not removed before: the loop waits for it also while it handles other events.
        if timeout is None:
            self._network.end_wait()
        elif timeout > 0 and self._network.begin_wait(timeout):
            timeout = None
        return super().select(timeout)
