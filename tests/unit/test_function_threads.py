"""Threads for functions that may block: what becomes of functions when they are closed."""

import asyncio
import threading

import pytest

from headgate.serving._threads import MAX_THREADS, FunctionThreads


def test_functions_that_are_queued_or_come_later_fail_once_it_is_closed() -> None:
    has_started, may_end = threading.Semaphore(0), threading.Event()

    def function() -> bool:
        has_started.release()
        return may_end.wait(20)

    async def main() -> None:
        threads = FunctionThreads()
        running = [asyncio.create_task(threads.run(function)) for _ in range(MAX_THREADS)]
        await asyncio.sleep(0)
        for _ in running:
            assert has_started.acquire(timeout=20)
        queued = asyncio.create_task(threads.run(function))
        await asyncio.sleep(0)
        threads.close()
        for late in (queued, threads.run(function)):
            with pytest.raises(RuntimeError, match="the function was not called: its threads were closed"):
                await late
        may_end.set()
        assert [True] * MAX_THREADS == await asyncio.gather(*running)

    asyncio.run(main())
