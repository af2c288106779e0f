"""A flow of calls with everything that can delay the start of an item or the delivery of its result.

An item needs, in this order: its key (`per_key`), a slot of the limit, the rate. Only one item waits for the last two
(`Admission`), and later ones wait for it; items overtake those that wait for their key. A failed attempt releases its
slot and key, waits without them, and is then admitted in the same manner, before new items.

Waiting items count against the same bound as uncollected ones: running + waiting + uncollected <= limit + buffer.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from headgate._checks import seconds_of
from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._retry import add_note
from headgate.tasks._call_flow import CallFlow, failing, is_fatal
from headgate.tasks._options import AmapOptions
from headgate.tasks._outcome import TaskOutcome, clear_locals, noted, stray
from headgate.tasks._source import END, NOT_YET
from headgate.tasks._thread_source import AnySource
from headgate.tasks._throttles import Admission, AttemptTimeout, Entry, KeyLimit, RetryQueue

_SKIPPED: Final = object()
_MAX_REFUSED: Final = 1000
"""Items whose `key` or `cost` failed in one iteration of the event loop; all items of an infinite source could fail."""


class _Raised:
    """Marks the position in the order at which an error is raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class ThrottledFlow(CallFlow):
    """Calls a function with each item that its key, the limit and the rate admit."""

    __slots__ = (
        *("_ahead", "_last_index", "_admission", "_next_index", "_is_refilling", "_is_timed", "_keys", "_retries"),
        *("_refused", "_shared", "_attempt_timeout", "_will_refill", "_yields"),
    )

    def __init__(self, source: AnySource, function: Callable[[Any], Any], options: AmapOptions[Any]) -> None:
        super().__init__(source, function, options)
        self._shared = options["limit"] if isinstance(options["limit"], ConcurrencyLimit) else None
        self._yields = options["errors"] == "yield"
        self._keys = None if options["per_key"] is None else KeyLimit(options["per_key"])
        self._admission = Admission(self._shared, options["rate"], options["cost"])
        self._retries = RetryQueue()
        self._is_timed = self._yields or options["timeout"] is not None
        self._attempt_timeout = (
            None if options["timeout"] is None else AttemptTimeout(seconds_of(options["timeout"]), self._running)
        )
        self._next_index = 0  # ordered: the results before this one have been delivered
        self._ahead: dict[int, Any] = {}  # ordered: results that are finished before an earlier one
        self._last_index: int | None = None  # ordered: no result after this one can be delivered
        self._is_refilling = False
        self._will_refill = False
        self._refused = 0

    # -- starting

    def resume(self) -> None:
        """Starts more, unless a start is in progress."""
        if not self._is_refilling:
            super().resume()

    def _refill(self) -> None:
        if self._is_refilling:  # a limit, a rate or the source calls back during a start
            return
        self._is_refilling = True
        self._refused = 0
        was_pulling = self._is_pulling
        try:
            self._start_admitted()
        except BaseException as error:  # noqa: BLE001 - the user's task factory may fail; its error must not be lost
            self.fail(error)
        self._is_refilling = False
        if self._has_ended:
            self._cancel_running()
        if was_pulling and not self._is_pulling:
            self._pull_soon()
        if self._refused >= _MAX_REFUSED:
            self._loop.call_soon(self._refill, context=self._context)
        if not self._may_pull and self.is_over():
            self._settle()

    def _start_admitted(self) -> None:
        while not self._has_ended and self._refused < _MAX_REFUSED:
            entry = self._admission.entry or self._next_entry()
            if entry is None:
                return
            self._admission.entry = entry
            try:
                if not self._admission.try_admit(entry):
                    self._admission.wait(self._slot_granted, self._token_granted)
                    return
            except BaseException as error:  # noqa: BLE001 - `cost` failed, or is more than the rate can ever allow
                self._admission.entry = None
                self._leave(entry)
                self._refuse(entry, error)
                continue
            self._admission.entry = None
            self._start(entry)

    def _next_entry(self) -> Entry | None:
        """Returns the next item for the limit: one to retry, one that waited for its key, or a new one."""
        if len(self._running) >= self._limit:
            return None
        while self._retries.due:
            entry = self._retries.due.popleft()
            if self._keys is None or self._keys.enter(entry):
                return entry
        admitted = None if self._keys is None else self._keys.pop_admitted()
        return admitted or self._next_new()

    def _next_new(self) -> Entry | None:
        """Returns the next item of the source whose key admits it."""
        while self._is_pulling and self._refused < _MAX_REFUSED:
            if self._is_full():
                self.is_stalled = True
                break
            entry = self._pull_entry()
            if entry is None:
                break
            if self._keys is None or self._enter_key(entry, self._keys):
                return entry
        return None

    def _pull_entry(self) -> Entry | None:
        try:
            item = self._pull_timed() if self._check_in else self._pull()
        except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
            self._source_failed(error)
            return None
        if item is END:
            self._stop_pulling()
        if item is END or item is NOT_YET:
            return None
        entry = Entry(self._taken, item)
        self._taken += 1
        return entry

    def _enter_key(self, entry: Entry, keys: KeyLimit) -> bool:
        try:
            if self._options["key"] is not None:
                entry.key = self._options["key"](entry.item)
            return keys.enter(entry)
        except BaseException as error:  # noqa: BLE001 - `key` failed, or returned a value that can't be hashed
            self._refuse(entry, error)
            return False

    def _refuse(self, entry: Entry, error: BaseException) -> None:
        """Fails an item that was never started."""
        self._refused += 1
        self._fail_item(entry, stray("the call", error) if isinstance(error, asyncio.CancelledError) else error)

    def _is_full(self) -> bool:
        """Returns whether one more item would exceed the bound of pulled and uncollected items."""
        options = self._options
        limit = self._limit if self._shared is None else self._shared.limit
        bound = limit + (limit if options["buffer"] is None else options["buffer"])
        if options["ordered"]:
            window = bound - 1 if options["window"] is None else options["window"]
            oldest = self._next_index - len(self.ready)
            return self._taken - oldest > window
        return len(self._running) + len(self.ready) + self._waiting() >= bound

    def _slot_granted(self) -> None:
        if not self._will_refill:  # else an item of this flow has released the slot
            self._loop.call_soon(self._refill, context=self._context)

    def _token_granted(self) -> None:
        if not self._will_refill:  # else an item of this flow has changed the rate
            self.resume()

    def _start(self, item: Any) -> None:  # noqa: ANN401 - an entry here
        entry: Entry = item
        entry.attempts += 1
        entry.is_late = False
        if self._is_timed:
            entry.began_s = self._now_s() - self._clock.paused.seconds
        if self._yields:
            entry.started_at = datetime.now(UTC)
        try:
            coroutine = self._function(entry.item)
        except BaseException as error:  # noqa: BLE001 - the function may not accept one argument
            coroutine = failing(error)
        try:
            task = self._create_task(coroutine)
        except BaseException:
            self._leave(entry)  # other flows may wait for its slot of a shared limit
            if entry.attempts == 1:
                self._unstarted += 1
            else:
                self._discarded += 1
            raise
        self._running[task] = entry
        if self._attempt_timeout is not None:
            self._attempt_timeout.watch(entry, self._clock, self._loop, self._context)
        task.add_done_callback(self._on_finished or self._bind(), context=self._context)

    # -- finishing

    def _finished(self, task: asyncio.Future[Any]) -> None:
        if self._has_ended:
            self._discard(task)
            return
        entry: Entry = self._running.pop(task)
        self._will_refill = True
        try:
            self._leave(entry)
            self._handle_finished(task, entry)
        except BaseException as error:  # noqa: BLE001 - the hash of a key may have changed; the error must not be lost
            self.fail(error)
        self._will_refill = False
        del task  # else its error, whose traceback has this frame, would be a cycle
        self._refill()

    def _handle_finished(self, task: asyncio.Future[Any], entry: Entry) -> None:
        if self._last_index is not None and entry.index > self._last_index:
            self._discard(task)
            self._discarded += 1
            return
        try:
            result = task.result()
        except BaseException as error:  # noqa: BLE001 - the item's own
            if entry.is_late and self._attempt_timeout is not None:
                failure = self._attempt_timeout.error(error)
            else:
                failure = self._error_of_call(task, error)
            del task  # as above
            try:
                self._attempt_failed(entry, failure)
            finally:
                del failure  # as above
        else:
            self._deliver(entry.index, self._outcome(entry, result, None) if self._yields else result)

    def _discard(self, task: asyncio.Future[Any]) -> None:
        entry = self._running.get(task)
        super()._discard(task)
        if entry is not None:
            self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        """Releases the item's slot of its key, its token, and its slot of a shared limit."""
        if self._keys is not None:
            self._keys.leave(entry.key)
        entry.has_token = False
        if entry.has_slot:
            self._admission.release(entry)

    def _attempt_failed(self, entry: Entry, error: BaseException) -> None:
        retry = self._options["retry"]
        if retry is not None and not is_fatal(error):
            try:
                delay_s = retry.delay(entry.attempts, error)
            except BaseException as mistake:  # noqa: BLE001 - the user's `on` or `backoff` failed
                self._fail_item(entry, mistake)
                return
            if delay_s is not None:
                self._retried += 1
                self._retries.add(entry, delay_s, self._refill, self._loop, self._context)
                return
            if entry.attempts > 1:
                add_note(error, f"attempt {entry.attempts} of {retry.attempts}")
        self._fail_item(entry, error)

    def _fail_item(self, entry: Entry, error: BaseException) -> None:
        options = self._options
        if options["ordered"] and options["errors"] == "raise" and not is_fatal(error):
            self._failed += 1
            self._drop_after(entry.index)
            self._deliver(entry.index, _Raised(noted(error, entry.item)))
        elif self._item_failed(entry.item, error):
            if self._yields and isinstance(error, Exception):
                clear_locals(error)
                self._deliver(entry.index, self._outcome(entry, None, error))
            else:
                self._deliver(entry.index, _SKIPPED)

    def _outcome(self, entry: Entry, value: object, error: Exception | None) -> TaskOutcome[Any, Any]:
        return TaskOutcome(
            index=entry.index,
            item=entry.item,
            value=value,
            error=error,
            attempts=entry.attempts,
            started_at=entry.started_at,
            elapsed_s=self._now_s() - self._clock.paused.seconds - entry.began_s if entry.attempts else 0.0,
        )

    def _deliver(self, index: int, result: object) -> None:
        if not self._options["ordered"]:
            self._make_ready(result)
            return
        if self._has_ended:
            return  # an earlier error ended the flow
        self._ahead[index] = result
        while self._next_index in self._ahead:
            result = self._ahead.pop(self._next_index)
            self._next_index += 1
            if isinstance(result, _Raised):
                self.fail(result.error)
                return
            self._make_ready(result)

    def _make_ready(self, result: object) -> None:
        if result is not _SKIPPED:
            self.ready.append(result)
            if self._waiters:
                self._wake()

    # -- ending

    def is_over(self) -> bool:
        """Returns whether nothing runs, and nothing will."""
        return super().is_over() and self._waiting() == 0

    def _waiting(self) -> int:
        for_key = 0 if self._keys is None else self._keys.waiting
        return len(self._retries) + len(self._ahead) + for_key + (self._admission.entry is not None)

    def _finished_ahead(self) -> int:
        return len(self._ahead)

    def stop(self) -> list[Any]:
        """Starts nothing new; items that have started finish, with their retries.

        Returns:
            The items that were pulled from the source and will not be started, in their order.
        """
        self._stop_pulling()
        self._source.close()  # it reads no more, and the flow is not over yet
        unstarted = self._drop_waiting(lambda entry: entry.attempts == 0)
        for item in self._source.remove_unpulled():
            unstarted.append(Entry(self._taken, item))
            self._taken += 1
            self._unstarted += 1
        unstarted.sort(key=lambda entry: entry.index)
        for entry in unstarted:
            self._deliver(entry.index, _SKIPPED)
        self.close_source()
        if self.is_open:  # a retry may have waited behind an item that was dropped
            self._loop.call_soon(self._refill, context=self._context)
        return [entry.item for entry in unstarted]

    def _drop_after(self, index: int) -> None:
        """Drops and cancels the items after one whose error will be raised: their results could not be delivered."""
        self._last_index = index
        self.close_source()
        self._drop_waiting(lambda entry: entry.index > index)
        for task in [task for task, entry in self._running.items() if entry.index > index]:
            self._cancel_once(task)

    def _drop_waiting(self, is_match: Callable[[Entry], bool]) -> list[Entry]:
        dropped = self._retries.drop(is_match)
        if self._keys is not None:
            dropped += self._keys.drop(is_match)
        if self._admission.entry is not None and is_match(self._admission.entry):
            dropped.append(self._admission.entry)
            self._admission.leave()
            self._leave(dropped[-1])
        unstarted = sum(entry.attempts == 0 for entry in dropped)
        self._unstarted += unstarted
        self._discarded += len(dropped) - unstarted
        return dropped

    def _end(self) -> None:
        self._drop_waiting(lambda _entry: True)
        self._keys = None
        self._ahead.clear()
        super()._end()

    def _settle(self) -> None:
        if self._attempt_timeout is not None:
            self._attempt_timeout.stop()
        super()._settle()
