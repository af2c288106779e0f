"""Bodies that are files, or that are made while they are sent."""

import asyncio
import bz2
import gc
import gzip
import io
import os
import tempfile
import threading
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest

import headgate
import headgate.testing
from support.loops import Run
from support.receiver import Receiver, receiving

HELD_BYTES: Final = 1 << 25
"""More than the buffers of both ends and of the sockets hold, so that a server that reads nothing is noticed."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def client(receiver: Receiver) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=receiver.url, retry_delay=0.001) as client:
        yield client


class Pieces:
    """Pieces as a generator, with what was taken of it and whether it was closed."""

    def __init__(self, *pieces: Any, error: BaseException | None = None, repeat: int = 1) -> None:
        self.taken = 0
        self.is_closed = False
        self._pieces = pieces * repeat
        self._error = error

    def __iter__(self) -> Iterator[Any]:
        try:
            for piece in self._pieces:
                self.taken += 1
                yield piece
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True

    async def make(self) -> AsyncIterator[Any]:
        for piece in self:
            await asyncio.sleep(0)
            yield piece


class Unseekable(io.RawIOBase):
    """A stream of three bytes at a time, without a length."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._content.read(min(3, len(buffer)))
        buffer[: len(read)] = read
        return len(read)


class WithoutRead1(io.BufferedIOBase):
    """A file that has only `read`."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        return self._content.read(size)


class NonBlocking:
    """A file in which nothing has arrived yet after the first bytes."""

    def __init__(self) -> None:
        self._reads = iter((b"one", None, b"two", b""))

    def read(self, _size: int) -> bytes | None:
        return next(self._reads)


class AsyncNonBlocking(NonBlocking):
    async def read(self, _size: int) -> bytes | None:  # type: ignore[override]
        return next(self._reads)


class Reiterable(Iterable[bytes]):
    """An iterable that can be iterated over more than once."""

    def __iter__(self) -> Iterator[bytes]:
        return iter((b"con", b"tent"))


def spooled(_: Path) -> Any:
    file = tempfile.SpooledTemporaryFile()  # noqa: SIM115 - the test closes it
    file.write(b"content")
    file.seek(0)
    return file


def temporary(_: Path) -> Any:
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - as above
    file.write(b"content")
    file.seek(0)
    return file


def unflushed(_: Path) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - as above
    file.write(b"content")
    file.seek(0)
    file.write(b"C")
    file.seek(0)
    return file


def zipped(path: Path) -> Any:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        archive.writestr("member", "content")
    # The archive stays open until the member is closed.
    with zipfile.ZipFile(path.with_suffix(".zip")) as archive:
        return archive.open("member")


def piped(_: Path) -> Any:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    return os.fdopen(reading, "rb")


def in_memory_file(path: Path, opener: Any) -> Any:
    with opener(path, "wb") as file:
        file.write(b"content")
    return opener(path)


KNOWN: Final[dict[str, Callable[[Path], Any]]] = {
    "bytes": lambda _: b"content",
    "bytearray": lambda _: bytearray(b"content"),
    "memoryview": lambda _: memoryview(b"_content")[1:],
    "text": lambda _: "content",
    "list": lambda _: [b"con", bytearray(b"tent")],
    "path": lambda path: path,
    "file": lambda path: path.open("rb"),
    "unbuffered file": lambda path: path.open("rb", buffering=0),
    "file to write": lambda path: path.open("r+b"),
    "temporary file": temporary,
    "BytesIO": lambda _: io.BytesIO(b"content"),
    "spooled file": spooled,
}
UNKNOWN: Final[dict[str, Callable[[Path], Any]]] = {
    "generator": lambda _: iter(Pieces(b"con", b"", bytearray(b"te"), memoryview(b"nt"))),
    "iterator": lambda _: iter((b"con", b"tent")),
    "iterable": lambda _: Reiterable(),
    "pipe": piped,
    "unseekable file": lambda _: Unseekable(b"content"),
    "file without read1": lambda _: WithoutRead1(b"content"),
    "gzip file": lambda path: in_memory_file(path, gzip.open),
    "bz2 file": lambda path: in_memory_file(path, bz2.open),
    "zip member": zipped,
}


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_each_kind_of_content_arrives_with_its_framing(
    name: str, client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    content = (KNOWN | UNKNOWN)[name](tmp_path / "file")
    assert client.post("/", content=content).status_code == 200
    received = receiver.last
    assert (b"content", True) == (received.body, received.is_complete)
    framing = {key: received.headers.get(key) for key in ("content-length", "transfer-encoding")}
    assert ["7", None] if name in KNOWN else [None, "chunked"] == list(framing.values())
    assert (
        "text/plain; charset=utf-8"
        if name == "text"
        else "application/octet-stream" == received.headers["content-type"]
    )
    if hasattr(content, "read"):
        assert not content.closed
        content.close()


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_a_client_of_a_loop_sends_the_same(name: str, run: Run, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as client:
            content = (KNOWN | UNKNOWN)[name](tmp_path / "file")
            await client.post("/", content=content)
            if hasattr(content, "read"):
                content.close()

    run(main())
    assert (b"content", True) == (receiver.last.body, receiver.last.is_complete)


def test_asynchronous_iterables_and_files_are_for_a_client_of_a_loop(run: Run, receiver: Receiver) -> None:
    class Reading:
        def __init__(self) -> None:
            self._file = io.BytesIO(b"content")

        async def read(self, size: int) -> bytes:
            return self._file.read(size)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as client:
            for content in (Pieces(b"con", b"tent").make(), Reading()):
                await client.post("/", content=content)  # type: ignore[arg-type]
                assert (b"content", True) == (receiver.last.body, receiver.last.is_complete)
        with (
            headgate.Client(base_url=receiver.url) as threads,
            pytest.raises(headgate.InvalidRequest, match="needs an AsyncClient"),
        ):
            threads.post("/", content=Pieces(b"x").make())  # type: ignore[arg-type]

    run(main())


def test_a_file_is_sent_from_its_position_which_stays(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb") as file:
        file.seek(6)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: client.post("/", content=file), range(8)))
        assert file.tell() == 6
    assert [b"6789"] * 8 == [request.body for request in receiver.requests]


def test_a_large_piece_is_sent_whole_and_many_small_ones_as_few(client: headgate.Client, receiver: Receiver) -> None:
    large = os.urandom(3_000_001)
    client.post("/", content=iter((large, bytearray(large))))
    assert large * 2 == receiver.last.body
    client.post("/", content=iter([b"x"] * 10_000))
    assert b"x" * 10_000 == receiver.last.body


@pytest.mark.parametrize(
    ("content", "length", "message"),
    [
        ([b"abc"], 4, r"another length than its content-length of 4 \(3 bytes\)"),
        ([b"abc", b"de"], 4, r"another length than its content-length of 4 \(5 bytes or more\)"),
        ([b"abcd", b"e"], 4, r"another length than its content-length of 4 \(5 bytes or more\)"),
        ([], 1, r"another length than its content-length of 1 \(0 bytes\)"),
    ],
)
def test_a_stream_of_another_length_than_stated_is_an_error_and_never_a_whole_request(
    content: list[bytes], length: int, message: str, client: headgate.Client, receiver: Receiver
) -> None:
    with pytest.raises(headgate.InvalidRequest, match=message):
        client.post("/", content=iter(content), headers={"Content-Length": str(length)})
    assert not receiver.last.is_complete
    assert client.post("/", content=iter((b"ab", b"cd")), headers={"Content-Length": "4"}).status_code == 200
    assert ("4", b"abcd") == (receiver.last.headers["content-length"], receiver.last.body)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"content": 7}, "content must be bytes, text, a path, a file or an iterable of bytes, not int"),
        ({"content": {"a": "b"}}, "content must be bytes, text, a path, .* not dict"),
        ({"content": [b"a", "b"]}, "content must consist of bytes, not str"),
        ({"content": io.StringIO("x")}, "content is a file in text mode"),
        ({"content": io.RawIOBase()}, "content is a file that is open only for writing"),
        ({"content": Path("/no/such/file")}, "can't be read .*no such file"),
        ({"content": Path("/")}, "it is a directory"),
        ({"content": b"a", "data": b"b"}, "content and data: a request has one body"),
        ({"content": iter(()), "headers": {"Content-Length": "many"}}, "must be a number of bytes, not 'many'"),
        ({"content": spooled(Path()), "headers": {"Content-Length": "7"}}, None),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_sent(
    arguments: dict[str, Any], message: str | None, client: headgate.Client, receiver: Receiver
) -> None:
    if message is None:
        assert client.post("/", **arguments).status_code == 200
        return
    with pytest.raises(headgate.InvalidRequest, match=message):
        client.post("/", **arguments)
    assert [] == receiver.requests


def test_of_a_file_beyond_its_end_nothing_is_sent(client: headgate.Client, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb") as file:
        file.seek(11)
        client.post("/", content=file)
    assert [b""] == [request.body for request in receiver.requests]


@pytest.mark.parametrize(("method", "retries"), [("POST", 3), ("PUT", 0)])
def test_an_error_names_the_body_only_where_a_retry_needs_it(method: str, retries: int) -> None:
    with headgate.testing.mock(base_url="http://a.example", assert_all_called=False) as mock:
        mock.route().fails("connection_closed")
        with (
            headgate.Client(base_url="http://a.example", retries=retries) as client,
            pytest.raises(headgate.ConnectionClosed) as error,
        ):
            client.request(method, "/", content=iter(Pieces(b"x")))
    assert "a second time" not in str(error.value)


def test_a_generator_that_was_sent_is_not_sent_again_as_an_empty_body(client: headgate.Client) -> None:
    request = headgate.Request("/", method="POST", content=iter(Pieces(b"x")))
    assert client.send(request).status_code == 200
    with pytest.raises(headgate.InvalidRequest, match="a generator that has ended: it can be sent only once"):
        client.send(request)


def test_a_file_that_does_not_block_is_refused_and_not_cut(
    run: Run, client: headgate.Client, receiver: Receiver
) -> None:
    expected = pytest.raises(headgate.InvalidRequest, match=r"content is a non-blocking file: read\(\) returned None")
    with expected:
        client.post("/", content=NonBlocking())  # type: ignore[arg-type]

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as of_loop:
            for file in (NonBlocking(), AsyncNonBlocking()):
                with expected:
                    await of_loop.post("/", content=file)  # type: ignore[arg-type]

    run(main())


@pytest.mark.parametrize("stated", [False, True])
def test_an_error_of_the_iterator_is_raised_and_the_server_sees_an_incomplete_body(
    stated: bool, run: Run, client: headgate.Client, receiver: Receiver
) -> None:
    headers = {"Content-Length": "4"} if stated else None
    pieces = Pieces(b"ab", b"cd", error=KeyError("mine"))
    with pytest.raises(KeyError, match="mine"):
        client.post("/", content=iter(pieces), headers=headers)
    assert (True, False) == (pieces.is_closed, receiver.last.is_complete)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as loop_client:
            for make in (Pieces.make, iter):
                pieces = Pieces(b"ab", b"cd", error=KeyError("mine"))
                with pytest.raises(KeyError, match="mine"):
                    await loop_client.post("/", content=make(pieces), headers=headers)
                assert (True, False) == (pieces.is_closed, receiver.last.is_complete)

    run(main())
    with pytest.raises(TypeError, match="content must consist of bytes, not str: open the file in binary mode"):
        client.post("/", content=iter((b"a", "b")))  # type: ignore[arg-type]
    assert not receiver.last.is_complete


def test_an_early_response_is_returned_and_the_rest_is_not_pulled(
    run: Run, client: headgate.Client, receiver: Receiver
) -> None:
    endless = Pieces(b"x" * 65_536, repeat=100_000)
    assert client.post("/early/413", content=iter(endless)).status_code == 413
    assert (True, True) == (endless.taken < 10_000, endless.is_closed)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as loop_client:

            async def stalling() -> AsyncIterator[bytes]:
                try:
                    yield b"x"
                    await asyncio.Event().wait()
                finally:
                    closed.append(True)

            closed: list[bool] = []
            assert (await loop_client.post("/early/413", content=stalling())).status_code == 413
            assert [True] == closed

    run(main())


def test_a_slow_server_slows_the_pulling(client: headgate.Client, receiver: Receiver) -> None:
    pieces = Pieces(b"x" * 65_536, repeat=1000)
    with ThreadPoolExecutor(1) as thread:
        sent = thread.submit(client.post, "/slow", content=iter(pieces))
        receiver.until(lambda: bool(receiver.requests) and pieces.taken > 4)
        taken = -1
        while taken != pieces.taken:
            taken = pieces.taken
            threading.Event().wait(0.2)
        assert taken * 65_536 < HELD_BYTES
        receiver.may_read.set()
        assert sent.result().status_code == 200
    assert 1000 * 65_536 == len(receiver.last.body)


@pytest.mark.parametrize("name", ["bytes", "path", "file", "BytesIO", "iterable", "gzip file", "generator", "pipe"])
def test_what_can_be_made_twice_is_retried_and_redirected_and_nothing_else(
    name: str, client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    opened = ExitStack()

    def make(path: Path) -> Any:
        content = (KNOWN | UNKNOWN)[name](path)
        return opened.enter_context(content) if hasattr(content, "read") else content

    is_single_use = name in {"generator", "pipe"}
    response = client.put("/status/503", content=make(tmp_path / "file"))
    assert (503, 1) if is_single_use else (200, 2) == (response.status_code, response.attempts)
    if is_single_use:
        for path, message in [
            ("/redirect/307", "the redirect needs the body a second time, and it is a stream"),
            ("/closing", "a retry needs the body a second time, and it is a stream, which can be sent only once"),
        ]:
            with pytest.raises(headgate.RequestError, match=message):
                client.put(path, content=make(tmp_path / "file"))
            assert 1 == sum(request.path == path for request in receiver.requests)
    else:
        assert client.put("/redirect/307", content=make(tmp_path / "file")).status_code == 200
        assert ("PUT", "/done", b"content") == (receiver.last.method, receiver.last.path, receiver.last.body)
    assert client.post("/redirect/303", content=make(tmp_path / "file")).status_code == 200
    assert ("GET", "/done", b"") == (receiver.last.method, receiver.last.path, receiver.last.body)
    opened.close()


def test_a_stream_of_which_nothing_was_read_is_retried() -> None:
    pieces = Pieces(b"content")
    with headgate.Client(retries=3, retry_delay=0.001) as client:
        with pytest.raises(headgate.ConnectError) as caught:
            client.put("http://127.0.0.1:1/", content=iter(pieces))
        assert (4, 0) == (caught.value.attempts, pieces.taken)
        assert "second time" not in str(caught.value)


def test_a_stream_never_meets_a_connection_that_the_server_has_closed(
    client: headgate.Client, receiver: Receiver
) -> None:
    for _ in range(30):
        assert client.get("/once").status_code == 200
        assert client.put("/", content=iter((b"content",))).status_code == 200
        assert b"content" == receiver.last.body


@pytest.mark.parametrize("option", ["timeout", "total_timeout"])
def test_a_stalled_iterator_is_ended_by_a_timeout(option: str, run: Run, receiver: Receiver) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def stalling() -> AsyncIterator[bytes]:
            try:
                yield b"x"
                await asyncio.Event().wait()
            finally:
                closed.set()

        options: dict[str, Any] = {option: 0.2}
        async with headgate.AsyncClient(base_url=receiver.url, retries=0, **options) as client:
            with pytest.raises(headgate.RequestTimeout) as caught:
                await client.post("/", content=stalling())
            assert option == "total_timeout" or "the next piece of its iterator did not come" in str(caught.value)
            assert closed.is_set()
            await asyncio.to_thread(receiver.until, lambda: client.statistics().in_flight == 0)

    run(main())
    assert not receiver.last.is_complete


def test_cancelling_ends_the_upload_and_closes_the_generator(run: Run, receiver: Receiver) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def stalling() -> AsyncIterator[bytes]:
            try:
                yield b"x"
                await asyncio.Event().wait()
            finally:
                closed.set()

        async with headgate.AsyncClient(base_url=receiver.url) as client:
            for send in (client.post("/", content=stalling()), _read(client, stalling())):
                task = asyncio.ensure_future(send)
                count = len(receiver.requests)
                await asyncio.to_thread(receiver.until, lambda: any(each.body for each in receiver.requests[count:]))  # noqa: B023
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert closed.is_set()
                closed.clear()
                assert not (await asyncio.to_thread(lambda: receiver.last)).is_complete

    async def _read(client: headgate.AsyncClient, content: AsyncIterator[bytes]) -> None:
        async with client.stream("POST", "/", content=content) as response:
            await response.aread()

    run(main())


def test_an_iterator_that_ends_with_a_cancellation_ends_the_call(run: Run, receiver: Receiver) -> None:
    async def cancelled() -> AsyncIterator[bytes]:
        yield b"x"
        raise asyncio.CancelledError

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url, timeout=None, total_timeout=None) as client:
            expected = pytest.raises(headgate.StrayCancellation, match="the content was cancelled")
            async with asyncio.timeout(20):
                with expected:
                    await client.post("/", content=cancelled())
                with expected:
                    async with client.stream("POST", "/", content=cancelled()):
                        pass

    run(main())


def test_an_iterator_that_swallows_its_cancellation_does_not_hold_the_call(
    run: Run, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.client._loop_feeder.MAX_CANCEL_S", 0.1)

    async def main() -> None:
        may_end = asyncio.Event()

        async def swallowing() -> AsyncIterator[bytes]:
            yield b"x"
            while not may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await may_end.wait()

        async with headgate.AsyncClient(base_url=receiver.url, retries=0) as client, asyncio.timeout(20):
            with pytest.raises(headgate.TotalTimeout):
                await client.post("/", content=swallowing(), total_timeout=0.2)
            may_end.set()

    run(main())


def test_one_of_many_requests_may_have_files_and_no_stream(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with (tmp_path / "file").open("rb") as file:
        contents: list[Any] = [tmp_path / "file", file, b"content", iter((b"x",))]
        requests = [headgate.Request("/", method="PUT", content=content) for content in contents]
        requests.append(headgate.Request("/", method="PUT", files={"f": tmp_path / "file"}))
        outcomes = list(client.fetch_many(requests, ordered=True))
    assert [None] * 3 == [outcome.error for outcome in outcomes[:3]]
    assert isinstance(outcomes[3].error, headgate.InvalidRequest)
    assert "give bytes, a file or a Path, or send this request with send()" in str(outcomes[3].error)
    assert outcomes[4].error is None
    assert 3 == sum(request.body == b"content" for request in receiver.requests)
    assert 4 == len(receiver.requests)


def test_a_stream_is_not_compressed(receiver: Receiver) -> None:
    with (
        headgate.Client(base_url=receiver.url, compress_body="gzip") as client,
        pytest.raises(headgate.InvalidRequest, match="a body that is a stream can't be compressed: give it as bytes"),
    ):
        client.post("/", content=iter((b"x",)))


def test_a_body_is_sent_while_its_response_is_read(run: Run, client: headgate.Client, receiver: Receiver) -> None:
    echoed: list[bytes] = []

    def until_three_came() -> Iterator[bytes]:
        while len(echoed) < 3:
            yield b"x" * 1000

    with client.stream("POST", "/duplex", content=until_three_came()) as response:
        echoed.extend(response.iter_raw())
    assert receiver.last.body == b"".join(echoed)

    async def main() -> None:
        taken: asyncio.Queue[bytes] = asyncio.Queue()

        async def loop_replies() -> AsyncIterator[bytes]:
            yield b"0"
            for number in range(1, 5):
                assert f"{number - 1}".encode() == await taken.get()
                yield f"{number}".encode()

        async with (
            headgate.AsyncClient(base_url=receiver.url) as loop_client,
            loop_client.stream("POST", "/duplex", content=loop_replies()) as response,
        ):
            async for piece in response.aiter_raw():
                taken.put_nowait(piece)
        assert b"4" == taken.get_nowait()

    run(main())
    with (
        pytest.raises(KeyError, match="mine"),
        client.stream("POST", "/duplex", content=iter(Pieces(b"a", error=KeyError("mine")))) as response,
    ):
        response.read()
    receiver.until(lambda: len(receiver.requests) == 3)
    assert not receiver.last.is_complete


def test_many_threads_and_tasks_upload_at_a_time(run: Run, client: headgate.Client, receiver: Receiver) -> None:
    def body(number: int) -> bytes:
        return f"{number:04}".encode() * 20_000

    def pieces(number: int) -> Iterator[bytes]:
        for start in range(0, 80_000, 999):
            yield body(number)[start : start + 999]

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: client.post("/", content=pieces(number)), range(64)))

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url, concurrency=20) as loop_client:
            await asyncio.gather(*(loop_client.post("/", content=pieces(number)) for number in range(64, 128)))

    run(main())
    assert {body(number) for number in range(128)} == {request.body for request in receiver.requests}


def test_a_fork_uploads_with_an_engine_of_its_own(client: headgate.Client, receiver: Receiver) -> None:
    client.post("/", content=iter((b"parent",)))
    child = os.fork()
    if child == 0:
        try:
            client.post("/", content=iter((b"child",)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [b"parent", b"child"] == [request.body for request in receiver.requests]


def test_an_auth_function_changes_headers_and_the_body_stays(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    def sign(request: headgate.PreparedRequest) -> None:
        assert request.content is None
        request.headers["X-Signed"] = "yes"

    (tmp_path / "file").write_bytes(b"content")
    for content in (iter((b"content",)), tmp_path / "file"):
        client.post("/", content=content, auth=sign)
        assert ("yes", b"content") == (receiver.last.headers["x-signed"], receiver.last.body)


def test_a_mock_gets_what_is_streamed() -> None:
    with headgate.testing.mock() as mock:
        route = mock.post("https://api.example/").respond(200)
        with headgate.Client() as client:
            client.post("https://api.example/", content=iter((b"con", b"tent")))
    assert b"content" == route.calls[0].request.content


def test_a_file_that_becomes_shorter_while_it_is_sent_is_an_error(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * HELD_BYTES)
    with path.open("r+b") as file, ThreadPoolExecutor(1) as thread:
        sent = thread.submit(client.post, "/slow", content=file)
        receiver.until(lambda: bool(receiver.requests))
        file.truncate(10)
        receiver.may_read.set()
        with pytest.raises(headgate.InvalidRequest, match=f"a file of the body was changed while it was sent .*{path}"):
            sent.result()
    assert not receiver.last.is_complete


def test_uploads_keep_no_descriptor_until_the_garbage_collector_runs(run: Run, receiver: Receiver) -> None:
    async def main() -> None:
        async with headgate.AsyncClient() as client:

            async def descriptors_after(count: int) -> int:
                for _ in range(count):
                    await client.post(receiver.url, content=Pieces(b"abc").make())
                return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number counts

            before = await descriptors_after(2)
            assert before + 10 > await descriptors_after(20)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()
