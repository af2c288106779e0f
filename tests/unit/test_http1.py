"""The server's side of HTTP/1.1, which mocks and ASGI applications share."""

from hypothesis import given, strategies as st

from headgate.serving._http1 import LAST_CHUNK, RequestParser, chunk

Sent = tuple[bytes, bool]
"""A body, and whether it is chunked."""


def written(number: int, body: bytes, *, is_chunked: bool, sizes: list[int]) -> bytes:
    """Returns the bytes of a request whose body, if it is chunked, has chunks of these sizes and one for the rest."""
    head = b"POST /%d HTTP/1.1\r\nHost: a.example\r\n" % number
    if not is_chunked:
        return head + (b"Content-Length: %d\r\n" % len(body) if body else b"") + b"\r\n" + body
    pieces, rest = [], body
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    pieces.append(rest)
    chunks = b"".join(chunk(piece) for piece in pieces if piece)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + LAST_CHUNK


def read(parser: RequestParser, parts: list[bytes]) -> list[tuple[str, bytes]]:
    """Returns the targets and the bodies of the requests in these parts, each of which is fed alone."""
    found: list[tuple[str, bytes]] = []
    is_in_body = False
    for part in parts:
        parser.feed(part)
        while True:
            if not is_in_body:
                head = parser.next_head()
                if head is None:
                    break
                found.append((head.target, b""))
                is_in_body = True
            piece = parser.next_piece()
            if piece is None:
                break
            is_in_body = bool(piece)
            found[-1] = found[-1][0], found[-1][1] + piece
            assert is_in_body or parser.is_body_complete
    assert not is_in_body
    assert 0 == parser.buffered
    return found


@given(
    st.lists(st.tuples(st.binary(max_size=60), st.booleans()), min_size=1, max_size=4),
    st.lists(st.integers(1, 20), max_size=4),
    st.lists(st.integers(1, 40), max_size=30),
)
def test_requests_are_read_however_they_are_split(sent: list[Sent], chunks: list[int], parts: list[int]) -> None:
    bytes_sent = b"".join(
        written(number, body, is_chunked=is_chunked, sizes=chunks) for number, (body, is_chunked) in enumerate(sent)
    )
    split = []
    for size in parts:
        split.append(bytes_sent[:size])
        bytes_sent = bytes_sent[size:]
    split.append(bytes_sent)
    assert [(f"/{number}", body) for number, (body, _) in enumerate(sent)] == read(RequestParser(), split)


def test_trailers_and_extensions_of_chunks_are_skipped() -> None:
    head = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = head + b"3;name=value\r\nabc\r\n0\r\nDigest: 7\r\n\r\n"
    assert [("/", b"abc")] * 2 == read(RequestParser(), [request, *(bytes([byte]) for byte in request)])
