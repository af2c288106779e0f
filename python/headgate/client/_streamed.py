"""What a response is whose body is taken while it comes, whoever waits for it."""

import time
from collections.abc import Iterator
from functools import cached_property
from typing import NoReturn

from headgate import _format
from headgate._facts import Fact
from headgate._native import Answer, ResponseStream
from headgate.client._encoding import told_encoding
from headgate.client._errors import RequestError
from headgate.client._request import Request
from headgate.client._response import Response, error_from


class _Gone:
    """What is left of a stream that was closed: how much of it had come."""

    is_here = True
    error = None

    def __init__(self, received: int) -> None:
        self.received = received

    def wait(self) -> bytes | None:
        """The end."""
        return b""

    def begin(self, raw: bool) -> None:  # noqa: FBT001 - as the engine's
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Streamed(Response):
    """A response whose body has still to come."""

    def __init__(self, request: Request, answer: Answer, native: ResponseStream) -> None:
        super().__init__(request, answer)
        self._native: ResponseStream | _Gone = native
        self._head_at = time.monotonic()
        self._is_begun = False
        self._is_closed = False

    @cached_property
    def content(self) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride] # it is set when it was read
        """Its body, when it was read.

        Raises:
            RuntimeError: It was not.
        """
        raise RuntimeError("the body of a streamed response was not read: read it whole first, or iterate over it")

    @property
    def encoding(self) -> str:
        """How its text is encoded: as for a `Response`; a byte order mark is seen when the body was read."""
        # Not remembered before that.
        is_known = "content" in vars(self) or "encoding" in vars(self)
        return super().encoding if is_known else told_encoding(self.headers) or "utf-8"

    @encoding.setter
    def encoding(self, encoding: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] # as there
        vars(self)["encoding"] = encoding

    @property
    def num_bytes_downloaded(self) -> int:
        """Bytes of the body that have arrived over the connection, before content codings are undone."""
        return self._native.received

    @property
    def is_stream_consumed(self) -> bool:
        """Whether somebody has begun to read the body: it can be read once."""
        return self._is_begun

    @property
    def is_closed(self) -> bool:
        """Whether nothing more arrives: the body has ended, or the block was left."""
        return self._is_closed

    def _begin(self, *, raw: bool) -> None:
        """The body is taken from now on.

        Raises:
            RuntimeError: It was taken before, or can't be any more.
        """
        if self._is_begun:
            raise RuntimeError("the body of this response was taken already: it comes once")
        if not self._native.is_here:
            self._refuse_fork()
        if self._is_closed:
            self._refuse_closed()
        self._is_begun = True
        self._native.begin(raw)

    def _piece(self, piece: bytes | None) -> bytes:
        """A piece of the body that was waited for; empty: it has ended.

        Raises:
            RequestError: It is not whole.
            RuntimeError: Nobody may take it any more.
        """
        if piece is None:
            self._refuse_fork()
        if not piece:
            if self._is_closed:
                self._refuse_closed()
            told = self._native.error
            self._close()
            if told is not None:
                raise self._broken(told)
        return piece

    def _broken(self, told: tuple[str, str, str | None]) -> RequestError:
        elapsed_s = self.elapsed.total_seconds() + time.monotonic() - self._head_at
        return error_from(told, url=self.url, attempts=self.attempts, elapsed_s=elapsed_s)

    def _close(self) -> None:
        self._is_closed = True
        native, self._native = self._native, _Gone(self._native.received)
        native.close()

    def _refuse_closed(self) -> NoReturn:
        raise RuntimeError("the response is closed: its body can be taken inside the block of stream() only")

    def _refuse_fork(self) -> NoReturn:
        raise RuntimeError("this response belongs to the process that asked: it does not go on in a fork of it")

    def _facts(self) -> Iterator[Fact]:
        yield from self._head_facts()
        yield "body", f"{_format.count(self.num_bytes_downloaded)} bytes have come"
        for hop in self.history:
            yield f"{hop.status_code} to", hop.location
