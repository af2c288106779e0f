"""Clients inside of web frameworks, servers that fork, and pools of processes."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from support.programs_of_frameworks import application
from support.run import LONGEST_S, serving, wait_for

for module in ("billiard", "fastapi", "gunicorn", "uvicorn"):
    pytest.importorskip(module, reason=f"{module} is not installed: pip install -r requirements/test.txt")

ASYNCHRONOUS = """
from contextlib import asynccontextmanager
import fastapi
from fastapi.responses import StreamingResponse
import headgate

@asynccontextmanager
async def lifespan(app):
    async with headgate.AsyncClient(base_url={server!r}) as app.state.client:
        with headgate.Client(base_url={server!r}) as app.state.blocking:
            yield

app = fastapi.FastAPI(lifespan=lifespan)

@app.get("/one")
async def one(path: str):
    return {{"status": (await app.state.client.get(path)).status_code}}

@app.get("/in-thread")
def in_thread(path: str):
    return {{"status": app.state.blocking.get(path).status_code}}

@app.get("/many")
async def many(count: int):
    async with app.state.client.fetch_many(f"/bytes/{{n}}" for n in range(count)) as outcomes:
        return {{"bytes": sum([len(outcome.unwrap().content) async for outcome in outcomes])}}

@app.get("/streamed")
async def streamed():
    async def pieces():
        async with app.state.client.stream("GET", "/bytes/1000000") as response:
            async for piece in response.aiter_bytes():
                yield piece
    return StreamingResponse(pieces())

@app.get("/in-flight")
async def in_flight():
    return {{"in_flight": app.state.client.statistics().in_flight}}
"""

BLOCKING = """
import os
import flask
import headgate

app = flask.Flask(__name__)
client = headgate.Client(base_url={server!r})
client.get("/hello").raise_for_status()  # before a fork, if the application is preloaded

@app.get("/one")
def one():
    return {{"status": client.get("/hello").status_code, "process": os.getpid(), "loaded": {loaded}}}

@app.get("/many")
def many():
    return {{"bytes": sum(len(outcome.unwrap().content) for outcome in client.fetch_many(["/bytes/10"] * 50))}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


async def _visit(url: str) -> None:
    async with headgate.AsyncClient(base_url=url, retries=0, concurrency=50) as visitor:
        paths = [
            *[f"/one?path=/status/{status}" for status in (200, 404, 500) for _ in range(20)],
            *["/in-thread?path=/hello"] * 20,
            *["/many?count=20"] * 20,
        ]
        values = [response.json() for response in await asyncio.gather(*map(visitor.get, paths))]
        assert [{"status": status} for status in (200, 404, 500) for _ in range(20)] == values[:60]
        assert [{"status": 200}] * 20 == values[60:80]
        assert [{"bytes": sum(range(20))}] * 20 == values[80:]
        assert [1_000_000] * 5 == [
            len(response.content) for response in await asyncio.gather(*(visitor.get("/streamed") for _ in range(5)))
        ]
        # Visitors that leave: the framework cancels what it did for them.
        for path in ("/streamed", "/one?path=/delay/2", "/many?count=1000"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await visitor.get(path)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_works_within_fastapi(server: str, tmp_path: Path, loop: str) -> None:
    command = ("uvicorn", "application:app", "--port", "0", "--loop", loop)
    with application(tmp_path, ASYNCHRONOUS.format(server=server), *command) as url:
        asyncio.run(_visit(url))
        wait_for(lambda: {"in_flight": 0} == headgate.get(f"{url}/in-flight").json())


@pytest.mark.parametrize(
    ("flags", "least_processes"),
    [(["--threads", "8"], 1), (["--workers", "3"], 2), (["--workers", "3", "--threads", "4", "--preload"], 2)],
    ids=["threads", "prefork", "preload"],
)
def test_a_client_works_within_flask_under_gunicorn(
    server: str, tmp_path: Path, flags: list[str], least_processes: int
) -> None:
    code = BLOCKING.format(server=server, loaded="os.getppid()" if "--preload" in flags else "os.getpid()")
    command = ("gunicorn", "application:app", "--bind", "127.0.0.1:0", "--no-control-socket", *flags)
    with application(tmp_path, code, *command) as url:
        processes: Counter[int] = Counter()

        def visit() -> bool:
            # Connections stay with their process: another one has requests only if it accepts new connections.
            with headgate.Client(base_url=url, retries=0) as visitor:
                outcomes = [outcome.unwrap().json() for outcome in visitor.fetch_many(["/one"] * 100)]
            assert {200} == {value["status"] for value in outcomes}
            processes.update(value["process"] for value in outcomes)
            return len(processes) >= least_processes

        wait_for(visit)
        with headgate.Client(base_url=url, retries=0) as visitor:
            assert [{"bytes": 500}] * 10 == [outcome.unwrap().json() for outcome in visitor.fetch_many(["/many"] * 10)]


POOL = """
import functools, sys, threading
import {pool_module} as pool_of
import headgate

client = headgate.Client(base_url={server!r}, concurrency=8)

def fetch(number):
    response = client.get(f"/bytes/{{number}}")
    many = sum(len(outcome.unwrap().content) for outcome in client.fetch_many(["/bytes/2"] * 10))
    return len(response.content), many

if __name__ == "__main__":
    with client.fetch_many(f"/bytes/{{n}}" for n in range(100)) as outcomes:
        next(outcomes)  # the parent forks while it uses the client
        with {pool} as pool:
            found = list(pool.map(fetch, range(60)))
    assert found == [(n, 20) for n in range(60)], found
    assert client.get("/hello").text == "Hello, World!"
    client.close()
    print("done")
"""

POOLS = {
    "fork": ("multiprocessing", "pool_of.get_context('fork').Pool(3)"),
    "forkserver": ("multiprocessing", "pool_of.get_context('forkserver').Pool(3)"),
    "recycled": ("multiprocessing", "pool_of.get_context('fork').Pool(3, maxtasksperchild=5)"),
    "celery": ("billiard", "pool_of.Pool(3, maxtasksperchild=7)"),
    "executor-fork": (
        "concurrent.futures",
        "pool_of.ProcessPoolExecutor(3, mp_context=__import__('multiprocessing').get_context('fork'))",
    ),
    "executor-spawn": (
        "concurrent.futures",
        "pool_of.ProcessPoolExecutor(3, mp_context=__import__('multiprocessing').get_context('spawn'))",
    ),
}


@pytest.mark.parametrize("kind", POOLS)
def test_a_client_works_in_a_pool_of_processes(server: str, tmp_path: Path, kind: str) -> None:
    pool_module, pool = POOLS[kind]
    code = POOL.format(server=server, pool_module=pool_module, pool=pool)
    (tmp_path / "pooled.py").write_text(code)
    # billiard causes warnings of its own.
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "default" if kind == "celery" else "error", "pooled.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (0, "done\n") == (done.returncode, done.stdout), done.stderr
    assert not re.search(r"Traceback|Exception ignored|headgate", done.stderr), done.stderr
