"""Runs one client in a fresh interpreter. `http_crossing.py` starts it and reads its line of JSON."""

import asyncio
import itertools
import json
import os
import sys
import threading
import time
from typing import Any

from callers import clients
from callers.clients import Client, Get, InLoop, Target


class Callers:
    """The state that all callers share: the numbers of their requests, the deadline, and the times of requests.

    Each makes `before` requests first, to connect and to warm up. Then, until `seconds` have passed, each makes one
    request after another; in all no more than `most`.
    """

    def __init__(self, body: bytes, most: int, seconds: float, before: int) -> None:
        self.body = body
        self.seconds = seconds
        self.before = before
        # `next` is atomic here.
        self.numbers = iter(range(most))
        self.spent_s: list[float] = []
        self.deadline = 0.0
        self.cpu_s = 0.0
        self.elapsed_s = 0.0

    def start(self) -> None:
        """Starts the clocks."""
        self.cpu_s, started = -time.process_time(), time.perf_counter()
        self.elapsed_s, self.deadline = -started, started + self.seconds

    def stop(self) -> None:
        """Stops the clocks."""
        self.elapsed_s += time.perf_counter()
        self.cpu_s += time.process_time()

    def found(self) -> dict[str, Any]:
        """Returns the figures."""
        spent_s = sorted(self.spent_s)
        median_s, p99_s = (spent_s[int(share * (len(spent_s) - 1))] for share in (0.5, 0.99))
        return {
            "requests": len(spent_s),
            "elapsed_s": self.elapsed_s,
            "cpu_s": self.cpu_s,
            "median_s": median_s,
            "p99_s": p99_s,
        }

    def check(self, body: bytes) -> None:
        """Raises an error if the body is not the expected one."""
        if body != self.body:
            raise ValueError(f"a body of {len(body):,} bytes is not the one that was sent")

    def work(self, get: Get) -> None:
        """Makes the requests of one thread."""
        before = time.perf_counter()
        for number in self.numbers:
            self.check(get(number))
            now = time.perf_counter()
            self.spent_s.append(now - before)
            before = now
            if now > self.deadline:
                return

    async def work_in_loop(self, get: clients.AsyncGet) -> None:
        """Makes the requests of one worker in a loop."""
        before = time.perf_counter()
        for number in self.numbers:
            self.check(await get(number))
            now = time.perf_counter()
            self.spent_s.append(now - before)
            before = now
            if now > self.deadline:
                return


def _in_threads(client: Client, target: Target, callers: Callers) -> None:
    wrong: list[BaseException] = []
    with client.threads()(target) as connect:
        gets = [connect() for _ in range(target.at_once)]
        ready, go = threading.Barrier(target.at_once + 1), threading.Event()

        def work(get: Get) -> None:
            try:
                for number in itertools.islice(callers.numbers, callers.before):
                    callers.check(get(number))
            except BaseException as error:  # noqa: BLE001 - is raised again below
                wrong.append(error)
            ready.wait()
            go.wait()
            try:
                callers.work(get)
            except BaseException as error:  # noqa: BLE001 - as above
                wrong.append(error)

        threads = [threading.Thread(target=work, args=[get]) for get in gets]
        for thread in threads:
            thread.start()
        ready.wait()
        callers.start()
        go.set()
        for thread in threads:
            thread.join()
        callers.stop()
    if wrong:
        raise wrong[0]


def _in_loop(client: Client, target: Target, callers: Callers) -> None:
    with client.in_loop()(target) as opened:
        # ZEO's runner of coroutines does not support asyncio tasks, which one worker does not need.
        opened.run(_one(opened, callers) if target.at_once == 1 else _many(opened, callers, target.at_once))


async def _one(opened: InLoop, callers: Callers) -> None:
    for number in itertools.islice(callers.numbers, callers.before):
        callers.check(await opened.get(number))
    callers.start()
    await callers.work_in_loop(opened.get)
    callers.stop()


async def _many(opened: InLoop, callers: Callers, at_once: int) -> None:
    async def connect() -> None:
        for number in itertools.islice(callers.numbers, callers.before):
            callers.check(await opened.get(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(connect())
    callers.start()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(callers.work_in_loop(opened.get))
    callers.stop()


def main() -> None:
    """Makes the run that the only argument describes in JSON."""
    plan = json.loads(sys.argv[1])
    # The server is on this machine, so that no proxy must be used.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    client = clients.named(plan["client"])
    target = Target(host=plan["host"], port=plan["port"], at_once=plan["at_once"], loop=client.loop)
    before = plan["before"]
    callers = Callers(plan["body"].encode(), before * target.at_once + plan["most"], plan["seconds"], before)
    (_in_threads if client.caller == clients.IN_A_THREAD else _in_loop)(client, target, callers)
    print(json.dumps(callers.found()), flush=True)
    if client.aborts:
        os._exit(0)


if __name__ == "__main__":
    main()
