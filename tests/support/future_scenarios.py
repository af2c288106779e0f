"""`as_completed` under everything that can happen to it, and a spy that lists the promises it breaks."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate import CompletedFutures, as_completed
from support.scenarios import LONG_S, Item, ItemError, LeaveError, ShortRepr, SourceError
from support.virtual_clock import run_on_virtual_clock


@dataclass(frozen=True, kw_only=True, repr=False)
class FuturePlan(ShortRepr):
    """One `as_completed` and its consumer."""

    items: tuple[Item, ...]
    limit: int = 1
    buffer: int | None = None
    timeout: float | None = None
    is_async: bool = False
    is_list: bool = False
    has_futures: bool = False
    """Whether every other awaitable is a task of other code."""
    source_waits: bool = False
    source_fails: bool = False
    plain_for: bool = False
    slow_s: int | None = None
    in_block: bool = True
    leave_at: int | None = None
    leave_by_error: bool = False
    cancel_at_s: float | None = None


@dataclass
class SpiedFutures:
    """A running `as_completed`, and what the spy has seen of it."""

    plan: FuturePlan
    broken: list[str] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    begun: list[int] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    given: int = 0
    foreign: dict[int, "asyncio.Task[int]"] = field(default_factory=dict)
    delivered: list[int] = field(default_factory=list)
    raised: BaseException | None = None
    has_left: bool = False

    def expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.broken.append(what)

    async def work(self, item: Item) -> int:
        self.begun.append(item.index)
        self.running.add(item.index)
        self.look()
        try:
            for _ in range(item.turns):
                await asyncio.sleep(0)
            if item.seconds:
                await asyncio.sleep(item.seconds)
        except asyncio.CancelledError:
            if item.cleanup_s:
                await asyncio.sleep(item.cleanup_s)
            raise
        finally:
            self.running.discard(item.index)
        self.done.add(item.index)
        if item.failures:
            raise ItemError(item.index)
        return item.index

    async def foreign_work(self, item: Item) -> int:
        await asyncio.sleep(item.seconds)  # it never fails: see `on_report` below
        return item.index

    def look(self) -> None:
        running = len(self.running)
        self.expect(running <= self.plan.limit, f"{running} run")
        buffer = self.plan.limit if self.plan.buffer is None else self.plan.buffer
        held = self.given - len(self.delivered)
        bound = self.plan.limit + buffer + (self.plan.plain_for or self.plan.is_async)
        self.expect(held <= bound or self.plan.is_list, f"{held} are taken and not collected, bound {bound}")

    def awaitable(self, item: Item) -> Any:
        self.given += 1
        if item.index in self.foreign:
            return self.foreign[item.index]
        return self.work(item)

    def source(self) -> Iterator[Any]:
        for item in self.plan.items:
            yield self.awaitable(item)
        if self.plan.source_fails:
            raise SourceError

    async def source_async(self) -> AsyncIterator[Any]:
        for item in self.plan.items:
            if self.plan.source_waits:
                await asyncio.sleep(item.index % 3)
            yield self.awaitable(item)
        if self.plan.source_fails:
            raise SourceError

    async def consume(self) -> None:
        plan = self.plan
        aws: Any = self.source_async() if plan.is_async else self.source()
        if plan.is_list:
            aws = [self.awaitable(item) for item in plan.items]
        futures: CompletedFutures[int] = as_completed(aws, limit=plan.limit, buffer=plan.buffer, timeout=plan.timeout)
        del aws
        try:
            if plan.in_block:
                async with futures:
                    await self._collect(futures)
            else:
                await self._collect(futures)
        except (SourceError, TimeoutError, LeaveError) as error:
            self.raised = error.with_traceback(None)
        finally:
            if plan.in_block or not self.has_left:
                self.expect(not self.running, "something runs on")

    async def _collect(self, futures: CompletedFutures[int]) -> None:
        if self.plan.plain_for:
            for awaitable in futures:
                try:
                    self.delivered.append(await awaitable)
                except ItemError as error:
                    self.delivered.append(error.args[0])
                if await self._leaves():
                    return
        else:
            async for future in futures:
                self.expect(future.done(), "one is not done")
                failed = future.exception()
                self.delivered.append(future.result() if failed is None else failed.args[0])
                del failed
                if await self._leaves():
                    return

    async def _leaves(self) -> bool:
        self.look()
        if self.plan.slow_s is not None:
            try:
                await asyncio.sleep(self.plan.slow_s)
            except asyncio.CancelledError:
                self.has_left = True
                raise
        if len(self.delivered) != self.plan.leave_at:
            return False
        self.has_left = True
        if self.plan.leave_by_error:
            raise LeaveError
        return True

    def judge(self) -> None:
        plan = self.plan
        self.expect(len(set(self.delivered)) == len(self.delivered), f"delivered twice: {self.delivered}")
        self.expect(len(set(self.begun)) == len(self.begun), "begun twice")
        own = {item.index for item in plan.items} - set(self.foreign)
        self.expect(set(self.delivered) & own <= self.done, "delivered and not done")
        if self.has_left or plan.cancel_at_s is not None:
            return
        if self.raised is None or isinstance(self.raised, SourceError):
            self.expect(len(plan.items) == len(self.delivered), f"only {self.delivered} were delivered")
            self.expect((self.raised is None) == (not plan.source_fails or plan.is_list), f"raised {self.raised!r}")
        else:
            self.expect(isinstance(self.raised, TimeoutError) and plan.timeout is not None, f"raised {self.raised!r}")


def broken_future_promises(plan: FuturePlan) -> list[str]:
    """Runs a plan, and returns the broken promises."""
    return run_on_virtual_clock(_run(plan))


async def _run(plan: FuturePlan) -> list[str]:
    loop = asyncio.get_running_loop()
    spied = SpiedFutures(plan)
    broken = spied.broken

    def on_report(_loop: object, context: dict[str, Any]) -> None:
        # The traceback of a kept error holds the frames that it came through, and through them the iterator. Only the
        # garbage collector frees that; futures that have failed by then report that their errors were not retrieved.
        if plan.in_block or not plan.source_fails:
            broken.append(f"reported to the event loop: {context}")

    loop.set_exception_handler(on_report)
    if plan.has_futures:
        spied.foreign = {item.index: loop.create_task(spied.foreign_work(item)) for item in plan.items[::2]}
    foreign = list(spied.foreign.values())
    consumer = loop.create_task(spied.consume())
    timer = None if plan.cancel_at_s is None else loop.call_later(plan.cancel_at_s, consumer.cancel)
    (ended,) = await asyncio.gather(consumer, return_exceptions=True)
    is_cancelled = isinstance(ended, asyncio.CancelledError) and plan.cancel_at_s is not None
    spied.expect(ended is None or is_cancelled, f"the consumer ended with {ended!r}")
    del consumer, ended  # the traceback would hold the iterator
    if timer is not None:
        timer.cancel()
    await asyncio.sleep(LONG_S)  # iterators that were left without a block end now
    spied.expect(not spied.running, "something runs forever")
    for task in foreign:
        spied.expect(task.done() and not task.cancelled(), "a task of other code was cancelled")
        task.exception()
    spied.judge()
    return broken
