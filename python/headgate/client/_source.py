"""Where many requests come from, and how they are read: a part at a time, whatever happens."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate._checks import kind_of
from headgate.batches._supply import close_source
from headgate.client._request import Asked, Request

LONGEST_PULL_S: Final = 0.005
"""After that long what has been read is handed over, however few."""


class Source:
    """The requests of an iterable.

    Attributes:
        has_ended: There are no more.
        failure: What reading them has raised. Those before it are requests like others, so it is raised when they are
            done.
    """

    def __init__(self, requests: Iterable[Asked]) -> None:
        refuse_one(requests)
        self._requests: Iterator[Asked] = iter(requests)
        self.has_ended = False
        self.failure: Exception | None = None

    def take(self, most: int) -> list[Asked]:
        """The next ones, as many as there are without waiting long."""
        taken: list[Asked] = []
        now = time.monotonic
        by = now() + LONGEST_PULL_S
        try:
            # Asked of every one: where one takes long, those before it do not wait for it.
            for asked in self._requests:
                taken.append(asked)
                if len(taken) >= most or now() > by:
                    return taken
        except Exception as error:  # noqa: BLE001 - it is raised when those before it are done
            self.failure = error
        self.has_ended = True
        return taken

    def close(self) -> None:
        """Reads no more. A generator is closed, so that what it holds is let go of."""
        self.has_ended, self.failure = True, None
        requests, self._requests = self._requests, iter(())
        close_source(requests)


def refuse_one(requests: object) -> None:
    """Refuses what is one request, and could be taken for many.

    Raises:
        TypeError: It is one.
    """
    if isinstance(requests, str | bytes | Mapping | Request):
        raise TypeError(f"many requests are an iterable of them, not {kind_of(requests)}: for one, give a list with it")
