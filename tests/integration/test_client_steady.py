"""Clients that are used for long: tasks that are cancelled at any time leave nothing, and nothing grows."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.run import LONGEST_S, serving

CANCELLED = """
import asyncio, gc, os, random, sys, threading
import headgate, uvloop

random.seed(int(sys.argv[2]))

async def one(client):
    await client.get("/bytes/1000")

async def late(client):
    await client.get(f"/delay/{random.random() / 100}")

async def posted(client):
    await client.post("/echo", content=b"x" * random.randrange(200_000))

async def many(client):
    async with client.fetch_many(f"/bytes/{n}" for n in range(30)) as outcomes:
        async for outcome in outcomes:
            outcome.unwrap()

async def streamed(client):
    async with client.stream("GET", "/bytes/300000") as response:
        async for _ in response.aiter_bytes():
            pass

async def signed(client):
    async def sign(request):
        await asyncio.sleep(0)
    await client.get("/hello", auth=sign)

def open_files():
    return len(os.listdir("/proc/self/fd"))

async def main():
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    async with headgate.AsyncClient(base_url=sys.argv[1], concurrency=20, retries=0) as client:
        await asyncio.gather(*(one(client) for _ in range(50)))
        before = open_files(), threading.active_count()

        async def cancelled(call):
            task = asyncio.ensure_future(call(client))
            if random.random() < 0.5:
                for _ in range(random.randrange(12)):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(random.random() / 100)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return 1
            return 0

        calls = [one, late, posted, many, streamed, signed]
        number = 0
        for _ in range(20):
            number += sum(await asyncio.gather(*(cancelled(random.choice(calls)) for _ in range(50))))
        async with asyncio.timeout(60):
            while client.statistics().in_flight:
                await asyncio.sleep(0.001)
            await asyncio.gather(*(call(client) for call in calls for _ in range(10)))
        gc.collect()
        assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()
        after = open_files(), threading.active_count()
        # Idle connections stay, at most one for each request in flight.
        assert after[0] <= before[0] + 20 and after[1] == before[1], (before, after)
        assert not failures, failures
        print(number > 100)

(uvloop.run if sys.argv[3] == "uvloop" else asyncio.run)(main())
"""

STEADY = """
import asyncio, gc, os, sys, threading
import headgate

server, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def usage():
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(gc.get_objects())

def sync(client, number):
    for _ in range(number):
        client.get("/bytes/1000", headers={"X-Trace": "7"}, params={"a": 1}).content

def many(client, number):
    for outcome in client.fetch_many("/bytes/1000" for _ in range(number)):
        outcome.unwrap().content

def streamed(client, number):
    for _ in range(number):
        with client.stream("GET", "/bytes/1000") as response:
            response.read()

async def in_loop(client, number):
    async def worker():
        for _ in range(number // 20):
            (await client.get("/bytes/1000", headers={"X-Trace": "7"})).content
    await asyncio.gather(*(worker() for _ in range(20)))

async def run_in_loop(sizes):
    async with headgate.AsyncClient(base_url=server, concurrency=20) as client:
        for number in (count // 5, count):
            await in_loop(client, number)
            sizes.append((resident(), usage()))

sizes = []
before, _, _ = usage()
if kind == "async":
    asyncio.run(run_in_loop(sizes))
else:
    with headgate.Client(base_url=server, concurrency=20) as client:
        for number in (count // 5, count):
            {"sync": sync, "many": many, "streamed": streamed}[kind](client, number)
            sizes.append((resident(), usage()))
(first, (files, threads, objects)), (last, (files_after, threads_after, objects_after)) = sizes
growth = f"{last - first:+} bytes, {files_after - files:+} files, {objects_after - objects:+} objects"
print(kind, growth, file=sys.stderr)
# Idle connections stay, at most one for each request in flight; the engine and the loop have a few files.
assert files_after <= before + 20 + 20 and threads_after <= threads, (before, sizes)
assert objects_after <= objects + 200, sizes
assert last <= first + 3_000_000, sizes
print("steady")
"""
COUNT = 10_000
"""Requests of each kind. By hand, with 100,000, nothing grew either."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


def run(program: str, directory: Path, *arguments: str) -> str:
    """Returns what a program prints that must cause no warning."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_thousand_tasks_that_are_cancelled_at_any_time_leave_nothing(
    server: str, tmp_path: Path, loop: str, seed: str
) -> None:
    assert "True\n" == run(CANCELLED, tmp_path, server, seed, loop)


@pytest.mark.parametrize("kind", ["sync", "async", "many", "streamed"])
def test_nothing_grows_with_the_number_of_requests(server: str, tmp_path: Path, kind: str) -> None:
    assert "steady\n" == run(STEADY, tmp_path, server, kind, str(COUNT))
