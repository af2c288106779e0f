"""Mistakes with the client and the functions for many tasks that type checkers refuse. The file is checked, never run.

Each mistake is told to be expected, by its kind; mypy and pyright complain of one that they do not find.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import AsyncIterator

import headgate
from headgate import (
    Client,
    ConcurrencyLimit,
    PreparedRequest,
    Rate,
    Retry,
    amap,
    as_completed,
    for_each,
    gather,
    limited_as_completed,
)


async def measure(word: str) -> int:
    return len(word)


async def pair(left: str, right: str) -> str:
    return left + right


def measure_now(word: str) -> int:
    return len(word)


async def numbers() -> AsyncIterator[int]:
    yield 1


async def functions() -> None:
    amap(measure_now, ["one"], limit=1)  # type: ignore[arg-type]
    amap(measure("one"), ["one"], limit=1)  # type: ignore[call-overload]
    amap(pair, ["one"], limit=1)  # type: ignore[arg-type]
    headgate.map(measure_now, ["one"], limit=1)  # type: ignore[arg-type]
    await for_each(measure_now, ["one"], limit=1)  # type: ignore[arg-type]
    await gather(1, limit=1)  # type: ignore[call-overload]


async def items() -> None:
    amap(measure, [1], limit=1)  # type: ignore[arg-type]
    amap(measure, numbers(), limit=1)  # type: ignore[arg-type]
    amap(measure, measure("one"), limit=1)  # type: ignore[call-overload]
    as_completed(measure("one"), limit=1)  # type: ignore[arg-type]
    as_completed([measure], limit=1)  # type: ignore[arg-type]
    limited_as_completed(numbers(), 1)  # type: ignore[arg-type]


async def options() -> None:
    amap(measure, ["one"])  # type: ignore[call-overload]
    amap(measure, ["one"], 10)  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1.5)  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, errors="ignore")  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, timeout="1")  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, concurrency=1)  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, rate=100)  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, retry=3)  # type: ignore[call-overload]
    amap(measure, ["one"], limit=1, cost=lambda word: word + 1)  # type: ignore[operator]
    amap(measure, ["one"], limit=1, errors="yield", buffer="2")  # type: ignore[call-overload]
    headgate.map(measure, ["one"], limit=1, loop_factory=1)  # type: ignore[call-overload]
    as_completed([measure("one")])  # type: ignore[call-arg]
    as_completed([measure("one")], limit=1, time=1)  # type: ignore[call-arg]
    await for_each(measure, ["one"], limit=1, errors="yield")  # type: ignore[arg-type]
    await for_each(measure, ["one"], limit=1, buffer=1)  # type: ignore[call-arg]
    await for_each(measure, ["one"])  # type: ignore[call-arg]
    await gather(measure("one"), limit=ConcurrencyLimit(1))  # type: ignore[call-overload]
    await gather(measure("one"))  # type: ignore[call-overload]
    Rate(100, 1)  # type: ignore[call-arg]
    Retry(3, "0.1")  # type: ignore[arg-type]
    await Retry().call(measure, 1)  # type: ignore[arg-type]
    await Retry().call(measure)  # type: ignore[call-arg]


async def results() -> None:
    for _ in amap(measure, ["one"], limit=1):  # type: ignore[attr-defined]
        pass
    async for value in amap(measure, ["one"], limit=1):
        value.upper()  # type: ignore[attr-defined]
    async for outcome in amap(measure, ["one"], limit=1, errors="yield"):
        outcome.value + 1  # type: ignore[operator]
    async with headgate.map(measure, ["one"], limit=1):  # type: ignore[attr-defined]
        pass


class Tokens:
    def token(self) -> str:
        return "abc"


async def sign_later(request: PreparedRequest) -> PreparedRequest:
    return request


async def made_later() -> AsyncIterator[bytes]:
    yield b""


def requests(client: Client) -> None:
    Client("http://localhost/")  # type: ignore[call-arg]
    Client(verify=False)  # type: ignore[arg-type]
    Client(concurrency="1")  # type: ignore[arg-type]
    client.get("/", verify=False)  # type: ignore[call-arg]
    client.get("/", timeout="5")  # type: ignore[arg-type]
    headgate.get("http://localhost/", verify=False)  # type: ignore[arg-type]
    headgate.get("http://localhost/", retries="1")  # type: ignore[arg-type]
    headgate.HTTPStatusError  # type: ignore[attr-defined] # noqa: B018 - a name of httpx
    client.get("/", headers={"a": 1})  # type: ignore[arg-type]
    client.get("/", auth="ann:secret")  # type: ignore[arg-type]
    client.get("/", auth=Tokens())  # type: ignore[arg-type] # they are of the client
    client.get("/", auth=sign_later)  # type: ignore[arg-type] # it is for an AsyncClient
    client.post("/", content=7)  # type: ignore[arg-type]
    client.post("/", content=iter(["text"]))  # type: ignore[arg-type]
    client.post("/", content=made_later())  # type: ignore[arg-type] # as above
    Client(hooks={"respnse": print})  # type: ignore[arg-type]
    Client(hooks={"attempt": sign_later})  # type: ignore[arg-type]
    Client(auth=sign_later)  # type: ignore[arg-type]
    headgate.fetch("urls.txt", "results", auth=lambda request: request)  # type: ignore[arg-type]
    client.fetch_many([1])  # type: ignore[list-item]
    client.get("/").status_code.upper()  # type: ignore[attr-defined]
    for outcome in client.fetch_many(["/"]):
        outcome.response.text  # type: ignore[union-attr] # noqa: B018 - it may be None
        if outcome.error is not None:
            outcome.response.text  # type: ignore[attr-defined] # noqa: B018 - it is None
    client.fetch_many([headgate.Request("/", tag=1)]).submit(headgate.Request("/", tag="a"))  # type: ignore[arg-type]
    with headgate.AsyncClient():  # type: ignore[attr-defined]
        pass
