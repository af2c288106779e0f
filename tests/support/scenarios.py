"""Maps of tasks under everything that can happen to them, and a spy that lists the promises they break."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from headgate import ConcurrencyLimit, Rate, Retry, StrayCancellation, TaskOutcome, TaskResults, TooManyFailures, amap
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock

LONG_S = 10_000.0
"""Longer than any scenario takes."""


class ItemError(Exception):
    """An attempt fails."""


class SourceError(Exception):
    """The source fails."""


class LeaveError(Exception):
    """The loop over the results is left."""


class ShortRepr:
    """Shows only what differs from the defaults, so that a shrunk failing scenario can be read."""

    def __repr__(self) -> str:
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)  # type: ignore[arg-type]
            if each.default is MISSING or getattr(self, each.name) != each.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Item(ShortRepr):
    """An item, and what happens when the function is called with it."""

    index: int
    turns: int = 0
    """How many turns of the loop it takes."""
    seconds: int = 0
    """How long each attempt takes."""
    failures: int = 0
    """How many attempts fail."""
    is_stray: bool = False
    """Whether they fail by a cancellation that no caller made."""
    key: int = 0
    cost: int = 1
    cleanup_s: int = 0
    """How long it takes to end when it is cancelled."""
    when_cancelled: str = "raise"
    """What it does when cancelled: "raise", "return" a result nevertheless, or "fail" with another error."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MapPlan(ShortRepr):
    """One map and its consumer."""

    items: tuple[Item, ...]
    limit: int = 1
    is_shared: bool = False
    buffer: int | None = None
    ordered: bool = False
    window: int | None = None
    errors: Any = "raise"
    max_failures: int | None = None
    timeout: float | None = None
    attempts: int | None = None
    backoff_s: int = 0
    has_rate: bool = False
    has_cost: bool = False
    per_key: int | None = None
    is_async: bool = False
    source_wait_s: tuple[int, ...] = (0,)
    source_blocks_s: tuple[float, ...] = (0.0,)
    """How long the event loop waits for the source before each item."""
    source_fails: bool = False
    slow_s: int | None = None
    in_block: bool = True
    leave_at: int | None = None
    leave_by_error: bool = False
    cancel_at_s: float | None = None
    cancel_turns: int = 1
    """In how many successive turns of the event loop it is cancelled then."""
    cancel_again_at_s: float | None = None
    stop_at_s: float | None = None
    stop_by: str | None = None
    """What stops the map when it comes to its `stop_at`-th item: the "function", "source", "key" or "cost"."""
    stop_at: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Scenario(ShortRepr):
    """Maps that run at the same time, and what they share."""

    maps: tuple[MapPlan, ...]
    shared_limit: int = 1
    resizes: tuple[tuple[float, int], ...] = ()
    rate: tuple[float, float] = (1.0, 4.0)


@dataclass
class Spied:
    """A running map, and what the spy has seen of it."""

    plan: MapPlan
    shared: ConcurrencyLimit
    rate: Rate
    most_slots: int
    broken: list[str]
    starts: list[tuple[float, int]]
    given: list[int] = field(default_factory=list)
    calls: Counter[int] = field(default_factory=Counter)
    running: Counter[int] = field(default_factory=Counter)
    keys: Counter[int] = field(default_factory=Counter)
    delivered: list[Any] = field(default_factory=list)
    unstarted: list[int] = field(default_factory=list)
    raised: BaseException | None = None
    has_left: bool = False
    was_stopped: bool = False
    has_ended: bool = False
    source_is_open: bool = False
    results: TaskResults[Any] | None = None

    # -- what the map is given

    async def function(self, item: Item) -> int:
        self.stop_if("function", item)
        self.calls[item.index] += 1
        self.running[item.index] += 1
        self.keys[item.key] += 1
        if self.plan.has_rate:
            self.starts.append((asyncio.get_running_loop().time(), item.cost if self.plan.has_cost else 1))
        self.look()
        try:
            return await self._work(item)
        finally:
            self.running[item.index] -= 1
            self.keys[item.key] -= 1
            self.look()

    async def _work(self, item: Item) -> int:
        try:
            for _ in range(item.turns):
                await asyncio.sleep(0)
            if item.seconds:
                await asyncio.sleep(item.seconds)
        except asyncio.CancelledError:
            if item.cleanup_s:
                await self._clean_up(item)
            if item.when_cancelled == "return":
                return item.index
            if item.when_cancelled == "fail":
                raise ItemError(item.index) from None
            raise
        if self.calls[item.index] <= item.failures:
            raise asyncio.CancelledError if item.is_stray else ItemError(item.index)
        return item.index

    async def _clean_up(self, item: Item) -> None:
        try:
            await asyncio.sleep(item.cleanup_s)
        except asyncio.CancelledError:
            self.expect(self.plan.timeout is not None, "a call was cancelled once more while it ended")
            raise

    def _block(self, item: Item) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockLoop)
        loop.pass_time(self.plan.source_blocks_s[item.index % len(self.plan.source_blocks_s)])

    def items(self) -> Iterator[Item]:
        for item in self.plan.items:
            self._block(item)
            self.stop_if("source", item)
            self.given.append(item.index)
            yield item
        if self.plan.source_fails:
            raise SourceError

    async def items_async(self) -> AsyncIterator[Item]:
        self.source_is_open = True
        is_ending = False
        try:
            for item in self.plan.items:
                wait_s = self.plan.source_wait_s[item.index % len(self.plan.source_wait_s)]
                if wait_s:
                    await asyncio.sleep(wait_s - 1)
                self.stop_if("source", item)
                self.given.append(item.index)
                yield item
            if self.plan.source_fails:
                raise SourceError
        except (asyncio.CancelledError, GeneratorExit):
            is_ending = True
            raise
        finally:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.expect(not is_ending, "the source was cancelled while it ended")
                raise
            finally:
                self.source_is_open = False

    def key(self, item: Item) -> int:
        self.stop_if("key", item)
        return item.key

    def cost(self, item: Item) -> int:
        self.stop_if("cost", item)
        return item.cost

    def stop_if(self, by: str, item: Item) -> None:
        if by == self.plan.stop_by and item.index == self.plan.stop_at:
            self.stop()

    # -- what is true at any moment

    def look(self) -> None:
        """Records each promise that is broken at this moment."""
        plan = self.plan
        running = self.running.total()
        limit = self.most_slots if plan.is_shared else plan.limit
        self.expect(running <= limit, f"{running} run at limit {limit}")
        if plan.per_key is not None:
            most = max(self.keys.values(), default=0)
            self.expect(most <= plan.per_key, f"{most} of one key run at per_key {plan.per_key}")
        if any(count > 1 for count in self.running.values()):
            self.expect(False, "an item runs twice at once")  # noqa: FBT003 - the first argument is the expectation
        if self.results is None:
            return
        now = self.results.statistics()
        held = now.running + now.waiting + now.uncollected
        bound = limit + (limit if plan.buffer is None else plan.buffer)
        if plan.window is not None:
            bound = plan.window + 1
        self.expect(held <= bound, f"{held} are held at the bound {bound}: {now}")
        begun = now.running + now.waiting + now.succeeded + now.failed + now.cancelled + now.unstarted
        self.expect(now.taken == begun, f"the figures do not add up: {now}")
        least = min(now.running, now.waiting, now.uncollected, now.succeeded, now.failed, now.cancelled, now.unstarted)
        self.expect(least >= 0, f"a figure is below 0: {now}")

    def expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.broken.append(what)

    # -- the consumer

    async def consume(self) -> None:
        plan = self.plan
        self.results = amap(
            self.function,
            self.items_async() if plan.is_async else self.items(),
            limit=self.shared if plan.is_shared else plan.limit,
            buffer=plan.buffer,
            ordered=plan.ordered,
            window=plan.window,
            errors=plan.errors,
            max_failures=plan.max_failures,
            timeout=plan.timeout,
            retry=None if plan.attempts is None else Retry(plan.attempts, lambda _attempt, _error: plan.backoff_s),
            rate=self.rate if plan.has_rate else None,
            cost=self.cost if plan.has_cost else None,
            key=None if plan.per_key is None else self.key,
            per_key=plan.per_key,
        )
        try:
            if plan.in_block:
                async with self.results:
                    await self._collect(self.results)
            else:
                await self._collect(self.results)
        except (ItemError, SourceError, StrayCancellation, TooManyFailures, TimeoutError, LeaveError) as error:
            self.raised = error.with_traceback(None)  # its frames would hold the results, as if in use
        finally:
            if plan.in_block or not self.has_left:
                self._nothing_is_left()
            self.has_ended = True
            self.look()
            self.results = None

    async def _collect(self, results: TaskResults[Any]) -> None:
        async for result in results:
            self.delivered.append(result)
            self.look()
            if self.plan.slow_s is not None:
                try:
                    await asyncio.sleep(self.plan.slow_s)
                except asyncio.CancelledError:
                    self.has_left = True
                    raise
            if len(self.delivered) == self.plan.leave_at:
                self.has_left = True
                if self.plan.leave_by_error:
                    raise LeaveError
                return

    def _nothing_is_left(self) -> None:
        left = self.running.total()
        self.expect(left == 0, f"{left} run on")
        self.expect(not self.source_is_open, "the source is open")

    def stop(self) -> None:
        if self.results is not None:
            self.was_stopped = True
            self.unstarted += [item.index for item in self.results.stop()]
            self.look()

    # -- what must be true at the end

    def judge(self) -> None:
        """Records each broken promise about results."""
        indexes = [result.index if isinstance(result, TaskOutcome) else result for result in self.delivered]
        self.expect(len(set(indexes)) == len(indexes), f"delivered twice: {indexes}")
        if self.plan.ordered:
            self.expect(indexes == sorted(indexes), f"not in order: {indexes}")
        self.expect(set(indexes) <= set(self.calls), "delivered and never called")
        self.expect(not set(self.unstarted) & set(self.calls), "returned as unstarted, and called")
        self.expect(self.unstarted == sorted(self.unstarted), "unstarted ones are not in their order")
        most = max(self.calls.values(), default=0)
        self.expect(most <= (self.plan.attempts or 1), f"{most} attempts")
        for result, index in zip(self.delivered, indexes, strict=True):
            self._judge_result(result, self.plan.items[index])
        if self.plan.cancel_at_s is None and not self.has_left:
            self._judge_all(indexes)

    def _judge_result(self, result: Any, item: Item) -> None:
        attempts, succeeds = self.expected(item)
        self.expect(self.calls[item.index] == attempts, f"{self.calls[item.index]} attempts, not {attempts}")
        if isinstance(result, TaskOutcome):
            self.expect(result.attempts == attempts, f"{result.attempts} attempts in the outcome, not {attempts}")
            self.expect((result.error is None) == succeeds, f"{result.error!r} for {item}")
        else:
            self.expect(succeeds, f"a result of {item}, which fails")

    def expected(self, item: Item) -> tuple[int, bool]:
        """Returns how many attempts there are, and whether the last one succeeds."""
        attempts = self.plan.attempts or 1
        if self.plan.timeout is not None and item.seconds > self.plan.timeout:
            if item.when_cancelled == "return":
                return 1, True  # it was cancelled, and returned a result nevertheless
            return attempts, False
        return min(item.failures + 1, attempts), item.failures < attempts

    def _judge_all(self, indexes: list[int]) -> None:
        """Checks a map whose consumer did not leave: everything that was taken has its outcome."""
        plan = self.plan
        fails = {item.index for item in plan.items if not self.expected(item)[1]}
        if self.raised is None:
            lost = set(self.given) - set(self.calls) - set(self.unstarted)
            if plan.stop_by == "source":
                lost.discard(plan.stop_at)  # yielded after the source had stopped the map itself
            self.expect(not lost, f"taken and lost: {lost}")
            due = set(self.calls) if plan.errors == "yield" else set(self.calls) - fails
            self.expect(due == set(indexes), f"delivered {indexes}, and not {due}")
            self.expect(plan.errors != "raise" or not fails & set(self.calls), "an error was not raised")
            failed = len(fails & set(self.calls))
            self.expect(plan.max_failures is None or failed <= plan.max_failures, "too many errors were not raised")
            if not self.was_stopped:
                self.expect(not plan.source_fails, "the error of the source was not raised")
                self.expect(len(plan.items) == len(self.calls), "not all were called")
        elif isinstance(self.raised, SourceError):
            self.expect(plan.source_fails, "a source error out of nowhere")
            due = set(range(len(plan.items))) - (set() if plan.errors == "yield" else fails)
            self.expect(due == set(indexes) or self.was_stopped, f"{indexes} were delivered before the source's error")
        elif isinstance(self.raised, (ItemError, StrayCancellation, TimeoutError)):
            self.expect(plan.errors == "raise" and bool(fails & set(self.calls)), f"{self.raised!r} out of nowhere")
            if plan.ordered and fails:
                due = set(range(min(fails & set(self.calls)))) - set(self.unstarted)
                self.expect(due == set(indexes), f"{indexes} were delivered before the first error, and not {due}")
        else:
            self.expect(isinstance(self.raised, TooManyFailures), f"raised {self.raised!r}")
            failed = len(fails & set(self.calls))
            self.expect(plan.max_failures is not None and failed > plan.max_failures, "too many errors out of nowhere")


def broken_promises(scenario: Scenario) -> list[str]:
    """Runs a scenario, and returns the broken promises."""
    return run_on_virtual_clock(_run(scenario))


async def _run(scenario: Scenario) -> list[str]:
    loop = asyncio.get_running_loop()
    broken: list[str] = []
    loop.set_exception_handler(lambda _loop, context: broken.append(f"reported to the event loop: {context}"))
    shared = ConcurrencyLimit(scenario.shared_limit)
    amount, burst = scenario.rate
    rate = Rate(amount, per=1, burst=burst)
    most_slots = max([scenario.shared_limit, *(slots for _, slots in scenario.resizes)])
    starts: list[tuple[float, int]] = []
    maps = [Spied(plan, shared, rate, most_slots, broken, starts) for plan in scenario.maps]
    timers = [loop.call_later(at_s, shared.resize, slots) for at_s, slots in scenario.resizes]
    consumers = []
    for spied in maps:
        consumer = loop.create_task(spied.consume())
        consumers.append(consumer)
        if spied.plan.cancel_at_s is not None:
            timers.append(loop.call_later(spied.plan.cancel_at_s, _cancel, consumer, spied.plan.cancel_turns))
            if spied.plan.cancel_again_at_s is not None:
                timers.append(loop.call_later(spied.plan.cancel_again_at_s, consumer.cancel))
        if spied.plan.stop_at_s is not None:
            timers.append(loop.call_later(spied.plan.stop_at_s, spied.stop))
    for spied, ended in zip(maps, await asyncio.gather(*consumers, return_exceptions=True), strict=True):
        is_cancelled = isinstance(ended, asyncio.CancelledError) and spied.plan.cancel_at_s is not None
        spied.expect(ended is None or is_cancelled, f"the consumer ended with {ended!r}")
    del consumer, consumers, ended  # the traceback would hold the results
    for timer in timers:
        timer.cancel()
    await asyncio.sleep(LONG_S)  # maps that were left without a block end now
    for spied in maps:
        spied.judge()
        spied.expect(not spied.running.total() and not spied.source_is_open, "something runs forever")
    if shared.in_use or shared.statistics().waiting:
        broken.append(f"the shared limit is not free: {shared}")
    if rate.statistics().waiting:
        broken.append(f"a task waits for the rate: {rate}")
    broken += too_fast(starts, amount, burst)
    return broken


def _cancel(task: "asyncio.Task[None]", turns: int) -> None:
    task.cancel()
    if turns > 1:
        task.get_loop().call_soon(_cancel, task, turns - 1)


def too_fast(starts: list[tuple[float, int]], amount: float, burst: float) -> list[str]:
    """Returns the windows from one start to another in which more was spent than the rate allows."""
    windows = []
    for first, (begin_s, _) in enumerate(starts):
        cost = 0
        for at_s, more in starts[first:]:
            cost += more
            if cost > burst + amount * (at_s - begin_s + 0.010) + 1e-6:
                windows.append(f"a cost of {cost} from {begin_s} s to {at_s} s")
    return windows
