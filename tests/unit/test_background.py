"""A run in the background: waiting for it, stopping it and leaving its block."""

import asyncio
import threading
from typing import Any

import pytest

import headgate
from headgate import Run
from headgate.jobs._job_options import FetchOptions
from support.figures import summary_json
from support.runs import NotingRun


def nothing() -> None:
    pass


class FakeJob(NotingRun):
    """A job that ends when it is stopped, or after some calls of `wait`."""

    def __init__(self, looks: int | None = None, *, ends_on: str = "stop", **figures: object) -> None:
        super().__init__()
        self._looks_left = looks
        self._ends_on = ends_on
        self._figures = figures
        self._has_ended = threading.Event()
        self.at_look = nothing

    def wait(self, timeout: float) -> bool:
        assert timeout <= 0.1
        if timeout:
            self.at_look()
        if self._looks_left is not None:
            self._looks_left -= 1
            if self._looks_left < 0:
                self._has_ended.set()
        return self._has_ended.is_set()

    def stop(self) -> None:
        self._end("stop")

    def abort(self) -> None:
        self._end("abort")

    def _end(self, how: str) -> None:
        self.calls.append(how)
        if how == self._ends_on:
            self.at_look = nothing
            self._figures |= {"interrupted": True}
            self._has_ended.set()

    def summary(self) -> str:
        return summary_json(**self._figures)


def run_of(job: FakeJob) -> Run:
    return Run(job, FetchOptions(input="urls.txt", output="results"))


def interrupt() -> None:
    raise KeyboardInterrupt


def test_waiting_returns_the_summary() -> None:
    run = run_of(FakeJob(3))
    assert run.summary is None
    assert 100_000 == run.wait().rows
    assert run.wait() is run.summary


def test_a_wait_that_is_too_short_is_a_timeout_error_and_the_run_continues() -> None:
    job = FakeJob()
    with pytest.raises(TimeoutError, match=r"^the run has not ended within 0 s; it continues$"):
        run_of(job).wait(timeout=0)
    assert [] == job.calls


@pytest.mark.parametrize(("error", "timeout"), [(ValueError, -1), (ValueError, float("nan")), (TypeError, "1")])
def test_a_timeout_that_is_none_is_refused(error: type[Exception], timeout: float) -> None:
    with pytest.raises(error, match=r"^timeout must be a number"):
        run_of(FakeJob()).wait(timeout)


def test_a_job_that_failed_raises_what_fetch_raises() -> None:
    run = run_of(FakeJob(1, failure={"kind": "output", "message": "disk full"}))
    with pytest.raises(headgate.OutputError, match="disk full") as raised:
        run.wait()
    assert raised.value.summary is run.summary


def test_a_job_that_stopped_itself_says_why() -> None:
    run = run_of(FakeJob(1, interrupted=True, stopped_by=["raise ", {"option": "max_failures", "value": "90%"}]))
    with pytest.raises(headgate.JobStopped, match=r"^raise max_failures='90%'$") as raised:
        run.wait()
    assert raised.value.summary is run.summary


def test_a_run_that_its_program_stops_gives_its_summary() -> None:
    run = run_of(FakeJob())
    run.stop()
    assert run.wait().interrupted


def test_options_of_a_run_can_be_set_while_it_runs() -> None:
    job = FakeJob()
    run = run_of(job)
    run.set(rate="50/s", concurrency=200, rate_per_host={"a.example": "5/s", "*": "9/s"}, total_timeout=None)
    run.pause()
    run.unpause()
    texts = {"rate": "50/s", "concurrency": "200", "rate_per_host": "a.example=5/s,*=9/s", "total_timeout": "none"}
    assert [f"set {texts}", "pause", "unpause"] == job.calls


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("rate '50' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s", {"rate": "50"}),
        (
            "concurrency must be at least 1, not 0; retries must be a whole number, not 'many'",
            {"concurrency": 0, "retries": "many"},
        ),
        ("burst must be a whole number, not '2.5'", {"burst": 2.5}),
        ("concurrency must be a whole number, not 'True'", {"concurrency": True}),
        ("name an option to set, such as rate='50/s'", {}),
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(expected: str, options: Any) -> None:
    job = FakeJob()
    with pytest.raises(headgate.UsageError) as raised:
        run_of(job).set(**options)
    assert expected == str(raised.value)
    assert [] == job.calls


def test_an_option_that_cannot_be_set_while_a_job_runs_is_no_argument() -> None:
    with pytest.raises(TypeError, match=r"^set\(\) got an unexpected keyword argument 'retry_on'"):
        run_of(FakeJob()).set(retry_on="429")  # type: ignore[call-arg] # that is the point


def test_a_second_stop_ends_the_run_now() -> None:
    job = FakeJob(ends_on="abort")
    run = run_of(job)
    run.stop()
    run.stop()
    assert ["stop", "abort"] == job.calls


def test_it_can_be_ended_now_at_once() -> None:
    job = FakeJob()
    run_of(job).stop(now=True)
    assert ["abort"] == job.calls


def test_a_run_that_something_else_stops_is_interrupted() -> None:
    job = FakeJob()
    job.stop()
    with pytest.raises(headgate.Interrupted, match=r"^stopped after 100,000 rows, whose results are written"):
        run_of(job).wait()


def test_an_interrupt_ends_the_wait_and_not_the_run() -> None:
    job = FakeJob()
    job.at_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        run_of(job).wait()
    assert [] == job.calls


def test_leaving_the_block_waits_for_the_end() -> None:
    with run_of(FakeJob(5)) as run:
        pass
    assert run.summary is not None


def test_leaving_the_block_by_an_error_stops_the_run_first() -> None:
    job = FakeJob()
    with pytest.raises(LookupError), run_of(job) as run:
        raise LookupError
    assert (["stop"], True) == (job.calls, run.summary is not None)


def test_an_interrupt_at_the_end_of_the_block_stops_the_run_and_another_ends_it_now() -> None:
    job = FakeJob(ends_on="abort")
    job.at_look = interrupt
    with pytest.raises(KeyboardInterrupt), run_of(job):
        pass
    assert ["stop", "abort"] == job.calls


async def test_a_run_can_be_awaited() -> None:
    summary = await run_of(FakeJob(5))
    assert 100_000 == summary.rows


async def test_several_runs_can_be_awaited_at_once() -> None:
    summaries = await asyncio.gather(*(run_of(FakeJob(looks)) for looks in (5, 1, 3)))
    assert [100_000] * 3 == [summary.rows for summary in summaries]


async def test_cancelling_the_await_stops_the_run() -> None:
    job = FakeJob()
    run = run_of(job)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run, 60)
    assert (["stop"], True) == (job.calls, run.summary is not None)


async def test_cancelling_the_await_twice_ends_the_run_now() -> None:
    job = FakeJob(ends_on="abort")
    task = asyncio.ensure_future(run_of(job))
    for _ in range(2):
        await asyncio.sleep(1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ["stop", "abort"] == job.calls


async def test_the_block_of_asyncio_waits_and_stops_as_the_other_one() -> None:
    async with run_of(FakeJob(5)) as run:
        pass
    assert run.summary is not None
    job = FakeJob()
    with pytest.raises(LookupError):
        async with run_of(job):
            raise LookupError
    assert ["stop"] == job.calls


async def test_blocking_calls_are_refused_in_a_running_loop() -> None:
    job = FakeJob()
    with pytest.raises(RuntimeError, match="wait would block the event loop that runs in this thread: await"):
        run_of(job).wait()
    assert [] == job.calls
    with pytest.raises(RuntimeError, match="write `async with`"), run_of(job):
        pass
    assert ["abort"] == job.calls


async def test_fetch_and_retry_name_the_alternative_in_an_event_loop() -> None:
    with pytest.raises(
        RuntimeError, match=r"^fetch would block the event loop .*await headgate\.start\(\.\.\.\).*to_thread"
    ):
        headgate.fetch("urls.txt", "results")
    with pytest.raises(RuntimeError, match=r"^retry would block the event loop .*asyncio\.to_thread"):
        headgate.Job("results").retry()


def test_a_wait_in_a_thread_ends_with_a_main_thread_that_ctrl_c_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    monkeypatch.setattr("sys.last_type", KeyboardInterrupt, raising=False)
    job = FakeJob()
    with pytest.raises(headgate.Interrupted):
        run_of(job).wait()
    assert ["stop"] == job.calls


def test_a_wait_in_a_thread_continues_after_the_main_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    monkeypatch.setattr("sys.last_type", LookupError, raising=False)
    job = FakeJob(3)
    assert 100_000 == run_of(job).wait().rows
    assert [] == job.calls


def test_a_run_says_what_it_is() -> None:
    run = run_of(FakeJob(2))
    assert "<headgate.Run into 'results': running>" == repr(run)
    run.wait()
    assert "<headgate.Run into 'results': ended>" == repr(run)
