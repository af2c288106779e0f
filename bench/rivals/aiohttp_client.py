"""A program: fixed workers that take their requests from one iterator, the fastest bounded way that aiohttp has.

It makes the requests that headgate makes: a URL of its own for each, the body read and dropped.
"""

import argparse
import asyncio
import json
import time

import aiohttp
import uvloop


class Client:
    """Counts what it has done."""

    def __init__(self, url: str, requests: int) -> None:
        self.url = url
        self.numbers = iter(range(1, requests + 1))
        self.statuses: dict[int, int] = {}
        self.body_bytes = 0

    async def run(self, concurrency: int) -> None:
        """Ends when there are no numbers left."""
        # the connector's own limit, 100 by default, would queue what the workers already bound
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(self.work(session))

    async def work(self, session: aiohttp.ClientSession) -> None:
        """One request after another."""
        for number in self.numbers:
            async with session.get(f"{self.url}/{number}") as response:
                self.body_bytes += len(await response.read())
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1


def main() -> None:
    """Prints what it has done as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--uvloop", action="store_true")
    arguments = parser.parse_args()
    client = Client(arguments.url, arguments.requests)
    started = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if arguments.uvloop else None) as runner:
        runner.run(client.run(arguments.concurrency))
    elapsed_s = time.perf_counter() - started
    print(json.dumps({"statuses": client.statuses, "body_bytes": client.body_bytes, "elapsed_s": elapsed_s}))


if __name__ == "__main__":
    main()
