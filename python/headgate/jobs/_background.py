"""A run in the background."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import timedelta
from math import inf
from types import TracebackType
from typing import Any, Final, Self, Unpack

from headgate._checks import SECONDS, check, number, seconds_of
from headgate._summary import Snapshot, Summary
from headgate.jobs._arguments import settings_of
from headgate.jobs._display import display_for
from headgate.jobs._job_options import FetchOptions
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._options import SetKeywords
from headgate.jobs._run import result_of, with_notes
from headgate.jobs._signals import POLL_S, RUNS, RunningJob, Signals
from headgate.jobs._watch import Observer

_TIMEOUT: Final = number(lambda seconds: seconds >= 0, f"{SECONDS} that is not below 0")


class Run(AbstractContextManager["Run"], AbstractAsyncContextManager["Run"]):
    """A run of a job in the background, from `headgate.start`. It can be used from any thread.

    Leaving its `with` block waits for the end; if an exception leaves the block, the run is stopped first. In asyncio,
    use `async with`, and `await run` instead of `wait`.

    >>> with headgate.start("http://127.0.0.1:8080/[1-100]", "results") as run:
    ...     run.pause()
    ...     run.set(concurrency=10)
    ...     run.unpause()
    ...     print(run.statistics().rows <= 100)
    True
    >>> run.summary.succeeded, run.wait().succeeded
    (100, 100)

    Attributes:
        output: The directory of the results.
    """

    __module__ = "headgate"

    def __init__(self, job: RunningJob, options: FetchOptions, close: Callable[[], None] | None = None) -> None:
        """The run of a job; `close` is called when it has ended."""
        self.output: str | None = options.output
        self._engine_run = job
        self._process = os.getpid()
        self._options = options
        self._close = close
        self._is_stopped = False
        self._summary: Summary | None = None

    def __repr__(self) -> str:
        state = "running" if self._summary is None and not self._engine_run.wait(0) else "ended"
        return f"<headgate.Run into {self.output!r}: {state}>"

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return (self.summary or self.statistics())._repr_html_()

    @property
    def _job(self) -> RunningJob:
        if self._process != os.getpid():
            raise RuntimeError(
                "a run belongs to the process that started it: it does not continue in a fork of that process"
            )
        return self._engine_run

    @property
    def summary(self) -> Summary | None:
        """The summary, with `failure` if the job failed; `None` while it runs."""
        return self._final_summary() if self._job.wait(0) else None

    def statistics(self) -> Snapshot:
        """Returns the progress so far."""
        return Snapshot.from_json(self._job.snapshot())

    def stop(self, *, now: bool = False) -> None:
        """Stops the run before the end of its input. It returns at once; `wait` returns when everything is written.

        Requests in flight get `shutdown_timeout` seconds, and all results are committed. The same call of
        `headgate.start` resumes the job. Stopping again ends it without waiting for requests in flight.

        >>> run = headgate.start("http://127.0.0.1:8080/delay/60", "results")
        >>> run.stop(now=True)
        >>> run.wait().interrupted
        True

        Args:
            now: Whether to end it without waiting for requests in flight.
        """
        if now or self._is_stopped:
            self._job.abort()
        else:
            self._job.stop()
        self._is_stopped = True

    def set(self, **options: Unpack[SetKeywords]) -> None:
        """Changes options of the job while it runs; `help(headgate.Job.set)` lists them.

        Raises:
            UsageError: An option has an invalid value, or the run has ended. The run continues as before.
            OutputError: The directory of the job can't be written to.
        """
        self._job.set(settings_of(self.output, options).texts)

    def pause(self) -> None:
        """Starts nothing more until `unpause`; requests in flight continue.

        Raises:
            UsageError: The run has ended.
            OutputError: As `set`.
        """
        self._job.pause()

    def unpause(self) -> None:
        """Continues after `pause`.

        Raises:
            UsageError: The run has ended.
            OutputError: As `set`.
        """
        self._job.unpause()

    def wait(self, timeout: float | timedelta | None = None) -> Summary:
        """Waits for the end. Ctrl-C ends the wait, not the run, except in its `with` block.

        Args:
            timeout: The timeout, in seconds or as a `timedelta`; the run continues afterwards.

        Returns:
            The summary, also if `stop` has stopped the run; its `interrupted` is then true.

        Raises:
            TimeoutError: The run has not ended by then.
            HeadgateError: As `headgate.fetch`.
            Interrupted: A signal or the end of the program stopped the run.
            RuntimeError: This thread runs an event loop, which `wait` would block: `await` the run.
        """
        refuse_to_block_a_loop("wait", "await the run itself")
        seconds = seconds_of(timeout)
        if seconds is not None:
            check("timeout", seconds, _TIMEOUT)
        end = inf if seconds is None else time.monotonic() + seconds
        if not self._job.wait(0):
            with self._observed() as observer:
                while not self._job.wait(min(POLL_S, max(end - time.monotonic(), 0))):
                    if time.monotonic() >= end:
                        raise TimeoutError(f"the run has not ended within {seconds:g} s; it continues")
                    observer.update()
                observer.end()
        return self._result()

    def __await__(self) -> Generator[Any, None, Summary]:
        """Waits for the end in asyncio. Cancelling that stops the run, and waits for its end."""
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Summary:
        if not self._job.wait(0):
            try:
                with self._observed() as observer:
                    # Don't block a thread of the loop's pool: they are few, and a run may take hours.
                    while not self._job.wait(0):
                        observer.update()
                        await asyncio.sleep(POLL_S)
                    observer.end()
            except asyncio.CancelledError:
                await self._stop_in_loop()
                raise
        return self._result()

    async def _stop_in_loop(self) -> None:
        self.stop()
        try:
            await self._wait_for_end_in_loop()
        except asyncio.CancelledError:
            self.stop(now=True)
            await self._wait_for_end_in_loop()
            raise
        finally:
            self._close_rows()

    async def _wait_for_end_in_loop(self) -> None:
        while not self._job.wait(0):  # noqa: ASYNC110 - the engine does not know asyncio
            await asyncio.sleep(POLL_S)

    def __enter__(self) -> Self:
        try:
            refuse_to_block_a_loop("the end of this block", "write `async with`")
        except RuntimeError:
            self.stop(now=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process != os.getpid():
            return
        if error is not None:
            self._stop_and_wait()
            return
        try:
            self.wait()
        except KeyboardInterrupt:
            self._stop_and_wait()
            raise

    def _stop_and_wait(self) -> None:
        self.stop()
        try:
            self._wait_for_end()
        except KeyboardInterrupt:
            self.stop(now=True)
            self._wait_for_end()
            raise
        finally:
            self._close_rows()

    def _wait_for_end(self) -> None:
        while not self._job.wait(POLL_S):
            pass  # between two waits, signals are handled

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._stop_in_loop()
        else:
            await self

    @contextmanager
    def _observed(self) -> Iterator[Observer]:
        # Ctrl-C interrupts a wait, not the run in the background. SIGTERM ends the process, but only after the display
        # was removed from the terminal.
        received = Signals((signal.SIGTERM,))
        try:
            with received, display_for(show=self._options.progress or False, output=self.output) as display:
                received.stop_on_signal(self._job)
                yield Observer(self._job, display, received, shutdown_timeout=self._options.shutdown_timeout)
        finally:
            if received.first == signal.SIGTERM:
                RUNS.end_process()

    def _final_summary(self) -> Summary:
        if self._summary is None:
            RUNS.discard(self._job)
            self._close_rows()
            if self._close is not None:
                self._close()
            self._summary = with_notes(Summary.from_json(self._job.summary()), self._options)
        return self._summary

    def _close_rows(self) -> None:
        if self._options.rows is not None:
            self._options.rows.close()

    def _result(self) -> Summary:
        summary = self._final_summary()
        if self._options.rows is not None:
            self._options.rows.raise_error()
        return result_of(summary, is_interrupted=summary.interrupted and not self._is_stopped)
