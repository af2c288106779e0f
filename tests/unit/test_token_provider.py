"""What the engine calls for a token."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from headgate.client._client_options import ClientOptions
from headgate.jobs._token_provider import TokenProvider
from support.loops import Run


class Tokens:
    """A source whose method returns something, or raises it."""

    def __init__(self, result: object) -> None:
        self._result = result

    def token(self) -> str:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result  # type: ignore[return-value] # some are mistakes


class AsyncTokens(Tokens):
    """The same, asynchronously; it keeps the loop."""

    loop: asyncio.AbstractEventLoop | None = None

    async def token(self) -> str:  # type: ignore[override] # both kinds are accepted
        self.loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        return super().token()


@pytest.mark.parametrize("kind", [Tokens, AsyncTokens])
def test_it_returns_the_token_or_raises_what_the_source_raises(kind: type[Tokens]) -> None:
    assert "abc" == TokenProvider(kind("abc"))()
    with pytest.raises(LookupError, match="sealed"):
        TokenProvider(kind(LookupError("sealed")))()
    with pytest.raises(TimeoutError, match="of the source"):
        TokenProvider(kind(TimeoutError("of the source")))()
    with pytest.raises(TypeError, match=r"token\(\) must return text, not bytes"):
        TokenProvider(kind(b"abc"))()


def test_providers_of_one_source_are_equal() -> None:
    tokens = Tokens("abc")
    assert 1 == len({TokenProvider(tokens), TokenProvider(tokens)})
    assert TokenProvider(tokens) != TokenProvider(Tokens("abc"))


def options_of(client: headgate.AsyncClient | headgate.Client) -> ClientOptions:
    """Returns the options that the engine reads."""
    return client._engine.options  # noqa: SLF001 - nothing else has them


def test_an_asynchronous_source_runs_in_the_first_loop_of_its_client(run: Run) -> None:
    tokens = AsyncTokens("abc")

    async def main() -> None:
        async with headgate.AsyncClient(base_url="http://api.example", auth=tokens) as client:
            await client.get("/", auth=None)
            assert "abc" == await asyncio.to_thread(options_of(client).token_provider)
            assert asyncio.get_running_loop() is tokens.loop

    with headgate.testing.mock() as server:
        server.get("http://api.example/")
        run(main())


def test_a_loop_of_many_requests_or_of_tables_serves_too(run: Run) -> None:
    async def many(client: headgate.AsyncClient) -> None:
        assert [True] == [outcome.error is None async for outcome in client.fetch_many(["/"])]

    async def tables(client: headgate.AsyncClient) -> None:
        assert 1 == (await client.fetch_table(pa.table({"url": ["/"]}))).num_rows

    async def streamed(client: headgate.AsyncClient) -> None:
        async with client.stream("GET", "/", auth=None) as response:
            assert b"" == await response.aread()

    async def main(use: Callable[[headgate.AsyncClient], Awaitable[None]], client: headgate.AsyncClient) -> None:
        await use(client)
        await asyncio.to_thread(options_of(client).token_provider)
        assert asyncio.get_running_loop() is tokens.loop
        await client.aclose()

    with headgate.testing.mock() as server:
        server.get("http://api.example/")
        for use in (many, tables, streamed):
            tokens = AsyncTokens("abc")
            run(main(use, headgate.AsyncClient(base_url="http://api.example", auth=tokens)))


def test_the_next_loop_serves_when_the_first_has_ended(run: Run) -> None:
    tokens = AsyncTokens("abc")

    async def main(client: headgate.AsyncClient) -> None:
        await client.get("/", auth=None)
        await asyncio.to_thread(options_of(client).token_provider)
        assert asyncio.get_running_loop() is tokens.loop

    with headgate.testing.mock() as server:
        server.get("http://api.example/")
        client = headgate.AsyncClient(base_url="http://api.example", auth=tokens)
        for _ in range(2):
            run(main(client))
        with pytest.raises(RuntimeError, match=r"no event loop of the client runs any more"):
            options_of(client).token_provider()
        run(client.aclose())


def test_a_token_that_is_awaited_when_its_loop_ends_is_an_error() -> None:
    has_begun = threading.Event()

    class Stuck:
        async def token(self) -> str:
            has_begun.set()
            await asyncio.Event().wait()
            return ""

    async def main(provider: TokenProvider) -> "asyncio.Future[str]":
        provider.use_loop(asyncio.get_running_loop())
        pending = threads.submit(provider)
        await asyncio.to_thread(has_begun.wait)
        return pending  # type: ignore[return-value] # of threads

    with ThreadPoolExecutor(1) as threads:
        pending = asyncio.run(main(TokenProvider(Stuck())))
        with pytest.raises(RuntimeError, match=r"token\(\) was cancelled, as at the end of its event loop"):
            pending.result()


def test_a_ttl_is_an_option_of_the_engine() -> None:
    class Short(Tokens):
        ttl = 30

    for tokens, ttl in ((Short("abc"), 30), (Tokens("abc"), None)):
        with headgate.Client(base_url="http://api.example", auth=tokens) as client:
            assert ttl == getattr(options_of(client), "token_ttl", None)
