"""A response whose body is read while it comes: `Client.stream` and `AsyncClient.stream`."""

import asyncio
import json
import os
import signal
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from support.loops import Run
from support.run import printed_by, serving, stats, wait_for

GIBIBYTE = 1 << 30
HELD_BYTES = 1 << 19
"""More than is ever held of an unread body: a buffer of 128 KiB, the bytes of one read, and the last piece."""
ROOM_BYTES = 1 << 16
"""Less than comes of a body while no caller reads it."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server) as client:
        yield client


@contextmanager
def events() -> Iterator[tuple[str, Callable[[bytes], None]]]:
    """Yields a server of one response without a length, and a function that sends more of it; empty bytes end it."""
    handlers: list[socketserver.StreamRequestHandler] = []
    succeeded, ended = threading.Event(), threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            handlers.append(self)
            succeeded.set()
            ended.wait()

    def send(data: bytes) -> None:
        assert succeeded.wait(20)
        if data:
            handlers[-1].wfile.write(data)
        else:
            ended.set()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}/", send
        finally:
            ended.set()
            listening.shutdown()
            thread.join()


def test_the_head_is_there_before_the_body(client: headgate.Client, server: str) -> None:
    with client.stream("GET", f"/bytes/{GIBIBYTE}") as response:
        assert (200, "HTTP/1.1", f"{server}/bytes/{GIBIBYTE}") == (
            response.status_code,
            response.http_version,
            response.url,
        )
        assert str(GIBIBYTE) == response.headers["content-length"]
        assert response is response.raise_for_status()
        assert ([], 1, False, False) == (
            response.history,
            response.attempts,
            response.is_stream_consumed,
            response.is_closed,
        )
        assert "bytes have arrived" in response._repr_html_()
    assert response.is_closed


def test_no_more_is_held_than_the_bound_allows(client: headgate.Client) -> None:
    with client.stream("GET", f"/bytes/{GIBIBYTE}") as response:
        pieces, taken, most = response.iter_bytes(), 0, 0
        while taken < 1 << 26:
            taken += len(next(pieces))
            # While no caller reads it, the buffer fills.
            wait_for(lambda taken=taken: response.num_bytes_downloaded - taken >= ROOM_BYTES)  # type: ignore[misc]
            most = max(most, response.num_bytes_downloaded - taken)
    assert most < HELD_BYTES


def test_bytes_come_in_pieces_of_the_requested_size(client: headgate.Client) -> None:
    whole = client.get("/bytes/1000000").content
    for size in (1000, 3_000_000, 300_007):
        with client.stream("GET", "/bytes/1000000") as response:
            pieces = list(response.iter_bytes(size))
        assert whole == b"".join(pieces)
        assert all(len(piece) == size for piece in pieces[:-1])
        assert response.is_closed
    with client.stream("GET", "/1") as response:
        with pytest.raises(ValueError, match="chunk_size must be at least 1, not 0"):
            response.iter_bytes(0)
        with pytest.raises(TypeError, match="chunk_size must be a number, not"):
            response.iter_bytes("9")  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_content_encodings_are_decoded_unless_raw_is_set(client: headgate.Client, encoding: str) -> None:
    with client.stream("GET", f"/encoded/{encoding}/300000") as response:
        assert client.get("/bytes/300000").content == response.read()
    with client.stream("GET", f"/encoded/{encoding}/300000") as raw:
        assert response.num_bytes_downloaded == sum(map(len, raw.iter_raw())) < 300_000


def test_a_body_that_was_read_is_there_like_any_other(client: headgate.Client) -> None:
    with client.stream("POST", "/echo", json={"a": 1}) as response:
        with pytest.raises(RuntimeError, match="was not read"):
            response.content  # noqa: B018 - it raises
        assert response.read() is response.read()
        assert [response.content] == list(response.iter_bytes())
    assert {"a": 1} == json.loads(response.json()["body"])
    assert response.text.startswith("{")
    assert "utf-8" == response.encoding


def test_a_byte_order_mark_counts_when_the_body_was_read() -> None:
    with headgate.testing.mock() as mock, headgate.Client() as client:
        mock.get("/utf-16", content="\ufeffgrün".encode("utf-16-le"))
        with client.stream("GET", "http://a.example/utf-16") as response:
            assert "utf-8" == response.encoding
            response.read()
        assert ("utf-16", "grün") == (response.encoding, response.text)
        with client.stream("GET", "http://a.example/utf-16") as response:
            response.encoding = "utf-16-le"
            response.read()
        assert ("utf-16-le", "grün") == (response.encoding, response.text)


def test_text_and_lines_come_as_they_are_sent(client: headgate.Client) -> None:
    with client.stream("GET", "/encoding/utf8") as response:
        assert client.get("/encoding/utf8").text == "".join(response.iter_text())
    with events() as (url, send), client.stream("GET", url) as response:
        lines = response.iter_lines()
        send(b"data: \xc3")
        send(b"\xbc\r\n")
        assert "data: \u00fc" == next(lines), "while the server goes on"
        send(b"a\xe2\x80\xa8b\rlast")
        assert "a\u2028b" == next(lines)
        send(b"")
        assert ["last"] == list(lines)


@pytest.mark.parametrize(("redirected", "hops"), [("/redirect/2", [302, 302])])
def test_redirects_are_followed_before(client: headgate.Client, redirected: str, hops: list[int]) -> None:
    with client.stream("GET", redirected) as response:
        assert hops == [hop.status_code for hop in response.history]
        assert b"Hello, World!" == response.read()
    with client.stream("GET", redirected, redirects="none") as response:
        assert 302 == response.status_code


def test_an_error_before_the_response_headers_raises_when_the_block_is_entered(client: headgate.Client) -> None:
    with pytest.raises(headgate.ConnectionClosed) as raised, client.stream("GET", "/fault/reset-before-headers"):
        pytest.fail("there is no response")
    assert 4 == raised.value.attempts
    with client.stream("GET", "/status/503") as response:
        assert (503, 4) == (response.status_code, response.attempts)
        with pytest.raises(headgate.StatusError, match="503 Service Unavailable"):
            response.raise_for_status()
        assert b"503 Service Unavailable\n" == response.read()
    with pytest.raises(headgate.InvalidRequest), client.stream("GET", "ftp://127.0.0.1/"):
        pytest.fail("there is no response")
    with pytest.raises(TypeError, match="insecure=True"):
        client.stream("GET", "/1", verify=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"client\.stream\(method, url\)"):
        client.get("/1", stream=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/fault/reset-mid-body", headgate.ConnectionClosed),
        ("/fault/truncated-gzip", headgate.DecodeError),
        ("/fault/hang-mid-body", headgate.ReadTimeout),
    ],
)
def test_a_body_that_breaks_off_raises_after_the_received_part(
    client: headgate.Client, server: str, path: str, error: type[headgate.RequestError]
) -> None:
    before = stats(server)["requests"]
    with client.stream("GET", path, timeout=1) as response:
        assert 200 == response.status_code
        with pytest.raises(error) as raised:
            response.read()
    assert f"{server}{path}" == raised.value.url
    assert 1 == raised.value.attempts
    assert raised.value.elapsed_s >= response.elapsed.total_seconds()
    assert str(raised.value).startswith(f"{server}{path}: ")
    assert before + 1 == stats(server)["requests"], "the request is not resent"
    assert response.is_closed


def test_a_body_can_be_read_once_and_only_in_its_block(client: headgate.Client) -> None:
    with client.stream("GET", "/1") as response:
        assert b"Hello, World!" == b"".join(response.iter_bytes())
        with pytest.raises(RuntimeError, match="read before: it can be read only once"):
            list(response.iter_bytes())
        with pytest.raises(RuntimeError, match="read before"):
            response.read()
    with client.stream("GET", f"/bytes/{GIBIBYTE}") as left:
        pieces = left.iter_bytes()
        next(pieces)
    with pytest.raises(RuntimeError, match="inside the block of stream"):
        list(pieces)
    with client.stream("GET", "/1") as response:
        response.close()
        with pytest.raises(RuntimeError, match="inside the block"):
            response.read()


def test_reading_to_the_end_keeps_the_connection_and_leaving_closes_it() -> None:
    with serving("--threads", "1") as server, headgate.Client(base_url=server, threads=1) as client:
        for _ in range(3):
            with client.stream("GET", "/bytes/1000000") as response:
                response.read()
        assert 1 == stats(server)["connections_accepted"] - 1, "and the one that asks this"
        with client.stream("GET", f"/bytes/{GIBIBYTE}"):
            pass
        wait_for(lambda: client.statistics().in_flight == 0)
        client.get("/1")
        assert (4, 0) == (client.statistics().succeeded - 1, client.statistics().failed)


def test_a_caller_that_holds_all_streams_gets_an_error(server: str) -> None:
    with headgate.Client(base_url=server, concurrency=2) as client, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(client.stream("GET", f"/bytes/{GIBIBYTE}"))
        with pytest.raises(
            headgate.PoolTimeout, match="this thread has 2 streams open, and the client makes 2 requests at a time"
        ):
            stack.enter_context(client.stream("GET", "/1"))
        with pytest.raises(headgate.PoolTimeout, match="this thread has 2 streams open"):
            client.get("/1")
        with ThreadPoolExecutor(1) as pool:
            # Another thread may wait for one of them to be closed.
            waiting = pool.submit(client.get, "/1")
            stack.close()
            assert waiting.result(20).is_success
        with client.stream("GET", "/1") as response:
            assert b"Hello, World!" == response.read()


def test_many_requests_that_would_wait_for_the_streams_of_their_own_thread_get_an_error(server: str) -> None:
    message = "this thread has 1 stream open, and the client makes 1 request at a time"
    table = pa.table({"url": ["/1", "/2"]})
    many: list[Callable[[headgate.Client], object]] = [
        lambda client: list(client.fetch_many(["/1", "/2"])),
        lambda client: list(client.fetch_many(["/1", "/2"], ordered=True)),
        lambda client: list(client.fetch_many(["/1", "/2"]).to_arrow_batches()),
        lambda client: list(client.map_batches(table)),
        lambda client: client.fetch_table(table),
    ]
    with headgate.Client(base_url=server, concurrency=1) as client:
        earlier = client.fetch_many(["/1"])
        assert next(earlier).unwrap().is_success
        for call in many:
            with (
                client.stream("GET", f"/bytes/{GIBIBYTE}"),
                pytest.raises(headgate.PoolTimeout, match=message),
            ):
                call(client)
            call(client)
        with client.stream("GET", f"/bytes/{GIBIBYTE}"):
            assert [] == list(earlier), "nothing of it waits for a slot"
        outcomes = client.fetch_many(["/1"])
        assert [headgate.Response] == [type(outcome.response) for outcome in outcomes]
        # Another thread may wait for the end of the stream.
        has_begun = threading.Event()

        def paths() -> Iterator[str]:
            has_begun.set()
            yield from ["/1", "/2"]

        with ThreadPoolExecutor(1) as pool:
            with client.stream("GET", f"/bytes/{GIBIBYTE}"):
                waiting = pool.submit(list, client.fetch_many(paths()))
                assert has_begun.wait(20)
            assert all(outcome.unwrap().is_success for outcome in waiting.result(20))


def test_what_arrived_before_the_streams_were_opened_is_no_error(server: str) -> None:
    with headgate.Client(base_url=server, concurrency=1) as client:
        outcomes = client.fetch_many()
        for number in range(3):
            outcomes.submit(f"/{number}")
        assert next(outcomes).unwrap().is_success
        wait_for(lambda: client.statistics().succeeded == 3)
        with client.stream("GET", f"/bytes/{GIBIBYTE}"):
            assert next(outcomes).unwrap().is_success
            assert next(outcomes).unwrap().is_success
            outcomes.submit("/4")
            with pytest.raises(headgate.PoolTimeout, match=r"^/4: this thread has 1 stream open"):
                next(outcomes)


def test_the_error_of_a_caller_that_holds_all_streams_has_the_request(server: str) -> None:
    def content() -> Iterator[bytes]:
        yield b"never read"

    with headgate.Client(base_url=server, concurrency=1, headers={"X-Of": "client"}) as client:
        requests: list[Callable[[], object]] = [
            lambda: client.post("/1", params={"a": "b"}, content=b"body"),
            lambda: client.put("/2", content=content()),
            lambda: list(client.fetch_many([headgate.Request("/3", tag=7), "/4"])),
            lambda: ExitStack().enter_context(client.stream("GET", "/5")),
        ]
        with client.stream("GET", f"/bytes/{GIBIBYTE}"):
            sent = []
            for request in requests:
                with pytest.raises(headgate.PoolTimeout) as raised:
                    request()
                prepared = raised.value.request
                assert prepared is not None
                assert "client" == prepared.headers["X-Of"]
                sent.append((prepared.method, prepared.url.removeprefix(server), prepared.content, prepared.tag))
            assert [
                ("POST", "/1?a=b", b"body", None),
                ("PUT", "/2", None, None),
                ("GET", "/3", None, 7),
                ("GET", "/5", None, None),
            ] == sent
            with pytest.raises(headgate.PoolTimeout) as raised:
                client.get("ftp://host/")
            assert raised.value.request is None


def test_any_thread_may_take_the_body_and_closing_the_client_ends_it(server: str) -> None:
    with headgate.Client(base_url=server) as client, client.stream("GET", f"/bytes/{GIBIBYTE}") as response:
        pieces = response.iter_bytes()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(next, pieces).result(20)
        client.close()
        with pytest.raises(headgate.RequestCancelled):
            list(pieces)
        with pytest.raises(RuntimeError, match="the client is closed"), client.stream("GET", "/1"):
            pytest.fail("it is closed")


def test_ctrl_c_ends_the_wait_for_the_head_and_for_the_body(server: str) -> None:
    with headgate.Client(base_url=server) as client:

        def interrupt() -> None:
            wait_for(lambda: client.statistics().in_flight == 1)
            os.kill(os.getpid(), signal.SIGINT)

        for path in ("/delay/3600", "/fault/hang-mid-body"):
            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt), client.stream("GET", path, timeout=3600) as response:
                response.read()
            thread.join()
            wait_for(lambda: client.statistics().in_flight == 0)


def test_a_fork_leaves_the_stream_to_its_parent(server: str, tmp_path: Path) -> None:
    program = f"""
import os, headgate
client = headgate.Client(base_url={server!r})
with client.stream("GET", "/bytes/10000000") as response:
    pieces = response.iter_bytes()
    first = next(pieces)
    child = os.fork()
    if child == 0:
        try:
            next(pieces)
        except RuntimeError as error:
            assert "belongs to the process that made the request" in str(error), error
        with client.stream("GET", "/1") as other:
            assert other.read() == b"Hello, World!"
        del pieces, response
        os._exit(7)
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 10000000 == len(first) + sum(map(len, pieces))
print("well")
"""
    assert "well\n" == printed_by("import warnings; warnings.simplefilter('ignore')\n" + program, tmp_path)


def test_a_loop_takes_a_body_while_other_tasks_run(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            whole = (await client.get("/bytes/3000000")).content

            async def take() -> bytes:
                async with client.stream("GET", "/bytes/3000000") as response:
                    assert 200 == response.raise_for_status().status_code
                    pieces = [piece async for piece in response.aiter_bytes(100_000)]
                    assert {100_000} == {len(piece) for piece in pieces}
                    assert (3_000_000, True) == (response.num_bytes_downloaded, response.is_closed)
                    return b"".join(pieces)

            assert [whole] * 20 == await asyncio.gather(*(take() for _ in range(20)))
            async with client.stream("GET", "/encoded/gzip/300000") as response:
                assert whole[:300_000] == await response.aread()
                assert response.content is await response.aread()
                assert [response.content] == [piece async for piece in response.aiter_bytes()]
            async with client.stream("GET", "/encoded/gzip/300000") as raw:
                assert response.num_bytes_downloaded == len(b"".join([piece async for piece in raw.aiter_raw()]))

    run(main())


def test_lines_come_to_a_loop_as_they_are_sent(run: Run) -> None:
    async def main() -> None:
        with events() as (url, send):
            async with headgate.AsyncClient() as client, client.stream("GET", url) as response:
                lines = response.aiter_lines()
                for number in range(3):
                    waiting = asyncio.ensure_future(anext(lines))
                    await asyncio.sleep(0)
                    assert not waiting.done()
                    await asyncio.to_thread(send, b"data: %d\n" % number)
                    assert f"data: {number}" == await waiting
                send(b"")
                assert [] == [line async for line in lines]

    run(main())


def test_cancelling_a_task_ends_its_exchange(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:

            async def take(path: str) -> None:
                async with client.stream("GET", path) as response:
                    await response.aread()

            for path in ("/delay/3600", "/fault/hang-mid-body"):
                task = asyncio.create_task(take(path))
                await asyncio.to_thread(wait_for, lambda: client.statistics().in_flight == 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.to_thread(wait_for, lambda: client.statistics().in_flight == 0)
            async with client.stream("GET", "/1") as response:
                assert b"Hello, World!" == await response.aread()

    run(main())


def test_errors_are_raised_in_a_loop(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, concurrency=2) as client:
            with pytest.raises(headgate.ConnectionClosed):
                async with client.stream("GET", "/fault/reset-before-headers"):
                    pytest.fail("there is no response")
            async with client.stream("GET", "/fault/reset-mid-body") as response:
                with pytest.raises(headgate.ConnectionClosed):
                    await response.aread()
            async with client.stream("GET", f"/bytes/{GIBIBYTE}") as first, client.stream("GET", "/1"):
                with pytest.raises(headgate.PoolTimeout, match="this task has 2 streams open"):
                    async with client.stream("GET", "/1"):
                        pytest.fail("it would never start")
                with pytest.raises(headgate.PoolTimeout, match="this task has 2 streams open"):
                    await client.get("/1")
                pieces = first.aiter_bytes()
                assert await anext(pieces)
                await client.aclose()
                with pytest.raises(headgate.RequestCancelled):
                    async for _ in pieces:
                        pass
            with pytest.raises(RuntimeError, match="the client is closed"):
                async with client.stream("GET", "/1"):
                    pytest.fail("it is closed")

    run(main())


def test_many_requests_that_would_wait_for_the_streams_of_their_own_task_get_an_error(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, concurrency=1) as client:

            async def fetch() -> list[bool]:
                return [outcome.unwrap().is_success async for outcome in client.fetch_many(["/1", "/2"])]

            async with client.stream("GET", f"/bytes/{GIBIBYTE}"):
                with pytest.raises(headgate.PoolTimeout, match="/1: this task has 1 stream open"):
                    await fetch()
                with pytest.raises(headgate.PoolTimeout, match="this task has 1 stream open"):
                    _ = [batch async for batch in client.fetch_many(["/1", "/2"]).to_arrow_batches()]
                with pytest.raises(headgate.PoolTimeout, match="this task has 1 stream open"):
                    await client.fetch_table(pa.table({"url": ["/1", "/2"]}))
                waiting = asyncio.create_task(fetch())
            assert [True, True] == await waiting

    run(main())


def test_another_task_that_closes_it_wakes_a_waiting_task(server: str, run: Run) -> None:
    async def main() -> None:
        async with (
            headgate.AsyncClient(base_url=server) as client,
            client.stream("GET", "/fault/hang-mid-body") as response,
        ):
            waiting = asyncio.ensure_future(response.aread())
            while not response.num_bytes_downloaded:  # noqa: ASYNC110 - actions of the engine are no events of the loop
                await asyncio.sleep(0)
            await response.aclose()
            with pytest.raises(RuntimeError, match="the response is closed"):
                await waiting

    run(main())
