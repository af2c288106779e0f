import asyncio
import gc

from headgate import as_completed
from support.virtual_clock import run_on_virtual_clock


def test_an_error_that_was_caught_does_not_keep_a_loop_that_was_left_until_the_garbage_collector_comes() -> None:
    told: list[object] = []

    async def work(item: int) -> None:
        if item in (1, 5):
            raise ValueError

    async def take_two() -> None:
        for taken, awaitable in enumerate(as_completed(map(work, range(6)), limit=2)):
            try:
                await awaitable
            except ValueError:
                assert 1 == taken
                return

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        await asyncio.create_task(take_two())
        await asyncio.sleep(10)

    gc.disable()
    try:
        run_on_virtual_clock(main())
    finally:
        gc.enable()
    gc.collect()
    assert [] == told
