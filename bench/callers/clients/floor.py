"""The lowest cost of a blocking request: one text, written and read on a socket for each thread."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from callers.clients import Get, Target

_CHUNK: Final = 65_536
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"Content-Length: "


@contextmanager
def blocking_socket(target: Target) -> Iterator[Callable[[], Get]]:
    """Repeats one request; of a response it parses only where the body begins and ends."""
    request = f"GET /0 HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n\r\n".encode()
    with ExitStack() as opened:

        def connect() -> Get:
            connection = opened.enter_context(socket.create_connection((target.host, target.port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def get(_number: int) -> bytes:
                connection.sendall(request)
                response = _more(connection)
                while (end := response.find(_END)) < 0:
                    response += _more(connection)
                if not response.startswith(b"HTTP/1.1 200"):
                    raise ValueError(response[:_CHUNK].decode(errors="replace").partition("\r\n")[0])
                begin = end + len(_END)
                at = response.index(_LENGTH) + len(_LENGTH)
                whole = begin + int(response[at : response.index(b"\r", at)])
                while len(response) < whole:
                    response += _more(connection)
                return response[begin:]

            return get

        yield connect


def _more(connection: socket.socket) -> bytes:
    if received := connection.recv(_CHUNK):
        return received
    raise ConnectionError("the server has closed the connection")
