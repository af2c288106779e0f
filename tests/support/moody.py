"""A server of several hosts that refuses rows with every failure worth a retry, and records each request.

A row is the number at the end of a URL. Its response depends only on that number and on how often it was requested,
over all runs of a job.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from support.ledger import Ending
from support.run import LONGEST_S, wait_for

Mood = Literal["well", "busy once", "throttled once", "closed once", "always busy", "always closed"]

_BODIES: Final = {200: b"well", 429: b"later", 503: b"busy"}
_ROUND: Final = 500
_MOODS: Final[dict[int, Mood]] = {
    **dict.fromkeys(range(13, _ROUND, 50), "busy once"),
    **dict.fromkeys(range(31, _ROUND, 50), "closed once"),
    250: "throttled once",
    320: "always busy",
    410: "always closed",
}


def mood(row: int) -> Mood:
    """Returns how the server treats a row."""
    return _MOODS.get(row % _ROUND, "well")


class Moody:
    """Requests that the server has seen. Read them within `until`, or when no client sends any more.

    Attributes:
        hosts: URLs, without a slash at the end.
        delay_s: How long a response takes.
        keys: The header `Idempotency-Key` of each request, by its row.
        succeeded: How many requests had a response or were cut off.
        most_at_once: The most requests that one host had at a time.
        is_calm: If set, rows that would be refused once are not refused any more.
        connections: The open connections.
    """

    def __init__(self, hosts: list[str], delay_s: float) -> None:
        self.hosts = hosts
        self.delay_s = delay_s
        self.keys: dict[int, list[str | None]] = {}
        self.succeeded = 0
        self.most_at_once = 0
        self.is_calm = False
        self.connections: set[asyncio.Transport] = set()
        self._at_once: Counter[str] = Counter()
        self._seen = threading.Condition()

    def until(self, is_true: Callable[[], bool]) -> None:
        """Waits until the condition holds; it is checked after each request."""
        with self._seen:
            assert self._seen.wait_for(is_true, LONGEST_S), "the condition does not come true"

    def waiting(self) -> int:
        """Returns the number of rows that were refused and wait for a retry."""
        return sum(len(keys) == 1 and mood(row).endswith("once") for row, keys in self.keys.items())

    def ending(self, row: int, url: str) -> Ending:
        """Returns the expected outcome of a row."""
        if mood(row) == "always closed":
            return Ending(url, None, "connection_closed", None)
        status = 503 if mood(row) == "always busy" else 200
        return Ending(url, status, None, _BODIES[status])

    def begin(self, host: str, row: int, key: str | None) -> bytes | None:
        """Records a request; returns the response, or `None` to close the connection."""
        with self._seen:
            tries = self.keys.setdefault(row, [])
            tries.append(key)
            self._at_once[host] += 1
            self.most_at_once = max(self.most_at_once, self._at_once[host])
            is_first = len(tries) == 1 and not self.is_calm
        match mood(row):
            case "always closed":
                return None
            case "closed once" if is_first:
                return None
            case "always busy":
                return _response(503)
            case "busy once" if is_first:
                return _response(503)
            case "throttled once" if is_first:
                return _response(429, "Retry-After: 1\r\n")
            case _:
                return _response(200)

    def end(self, host: str) -> None:
        """Records that a request has its response."""
        with self._seen:
            self._at_once[host] -= 1
            self.succeeded += 1
            self._seen.notify_all()


@contextmanager
def moody(hosts: int, *, delay_s: float = 0) -> Iterator[Moody]:
    """Runs such a server in a thread; each host is an address of this machine."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    addresses = [f"127.0.0.{number}" for number in range(1, hosts + 1)]
    origin = Moody([], delay_s)

    async def listen() -> list[asyncio.Server]:
        servers = [await loop.create_server(lambda: _Connection(origin, loop), addresses[0], 0)]
        port = servers[0].sockets[0].getsockname()[1]
        for address in addresses[1:]:
            servers += [await loop.create_server(lambda: _Connection(origin, loop), address, port)]
        origin.hosts = [f"http://{address}:{port}" for address in addresses]
        return servers

    async def close(servers: list[asyncio.Server]) -> None:
        for server in servers:
            server.close()
        for connection in origin.connections:
            connection.abort()

    try:
        servers = asyncio.run_coroutine_threadsafe(listen(), loop).result(LONGEST_S)
        try:
            yield origin
        finally:
            asyncio.run_coroutine_threadsafe(close(servers), loop).result(LONGEST_S)
            # The loop closes the connections in its next turns.
            wait_for(lambda: not origin.connections)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Connection(asyncio.Protocol):
    """A connection with one request after another, with a `Content-Length` if they have a body."""

    def __init__(self, origin: Moody, loop: asyncio.AbstractEventLoop) -> None:
        self._origin, self._loop = origin, loop
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._origin.connections.add(transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._origin.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self._received[:end].decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        whole = end + 4 + int(headers.get("content-length", "0"))
        if len(self._received) < whole:
            return
        del self._received[:whole]
        row = int(first.split(" ")[1].rpartition("/")[2])
        response = self._origin.begin(headers["host"], row, headers.get("idempotency-key"))
        if self._origin.delay_s:
            self._loop.call_later(self._origin.delay_s, self._end, headers["host"], response)
        else:
            self._end(headers["host"], response)

    def _end(self, host: str, response: bytes | None) -> None:
        if response is None:
            self._transport.close()
        else:
            self._transport.write(response)
        self._origin.end(host)


def _response(status: int, headers: str = "") -> bytes:
    body = _BODIES[status]
    return f"HTTP/1.1 {status} -\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body
