import os
import signal
import threading
from collections.abc import Iterable, Sequence
from typing import Self

import pytest

from headgate import Snapshot, Summary
from headgate.jobs import _watch
from headgate.jobs._display import Display
from headgate.jobs._events import Event
from headgate.jobs._signals import Signals
from support.figures import snapshot_json
from support.runs import NotingRun


class FakeJob(NotingRun):
    """A job that ends after some calls of `wait`; the test says what happens in each of them."""

    def __init__(self, *looks: signal.Signals | type[BaseException] | None) -> None:
        super().__init__()
        self._looks = iter(looks)

    def wait(self, timeout: float) -> bool:
        assert timeout <= 0.1
        look = next(self._looks, "end")
        if isinstance(look, signal.Signals):
            os.kill(os.getpid(), look)
        elif isinstance(look, type):
            raise look
        return look == "end"

    def summary(self) -> str:
        self.calls.append("finish")
        return super().summary()


class Recorder(Display):
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.shown = 0
        self.open = False

    def __enter__(self) -> Self:
        self.open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False

    def update(self, snapshot: Snapshot) -> None:
        assert snapshot.rows == 37_412
        self.shown += 1

    def say(self, event: Event) -> None:
        if event.is_shown:
            self.messages.append(event.message)


def watch(
    job: FakeJob,
    display: Display,
    *,
    greetings: Sequence[Event] = (),
    signals: Iterable[signal.Signals] = (signal.SIGINT,),
    shutdown_timeout: float = 10,
) -> tuple[Summary, signal.Signals | None]:
    with Signals(signals) as received:
        return _watch.watch(
            job, display, received, shutdown_timeout=shutdown_timeout, greetings=greetings
        ), received.first


def test_a_job_is_watched_to_its_end() -> None:
    job = FakeJob(None, None)
    summary, stopped_by = watch(job, Display())
    assert (100_000, None, ["finish"]) == (summary.rows, stopped_by, job.calls)


def test_the_greeting_comes_before_all_else() -> None:
    display = Recorder()
    watch(
        FakeJob(signal.SIGINT), display, greetings=[Event(name="resume", message="resuming: 1 row done", is_shown=True)]
    )
    assert ["resuming: 1 row done", "stopping: "] == [display.messages[0], display.messages[1][:10]]


def test_a_job_is_shown_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "DRAW_EVERY_S", 0.0)
    display = Recorder()
    watch(FakeJob(None, None, None), display)
    assert (3, False) == (display.shown, display.open)


def test_the_first_interrupt_stops_the_job_and_says_so() -> None:
    job, display = FakeJob(signal.SIGINT, None), Recorder()
    _, stopped_by = watch(job, display, shutdown_timeout=2.5)
    assert (signal.SIGINT, ["stop", "finish"]) == (stopped_by, job.calls)
    assert ["stopping: requests in flight get up to 2.5 s to finish; interrupt again to end now"] == display.messages


def test_the_second_interrupt_ends_the_job_now() -> None:
    job, display = FakeJob(signal.SIGINT, None, signal.SIGINT, None), Recorder()
    watch(job, display)
    assert ["stop", "abort", "finish"] == job.calls
    assert display.messages[1:] == ["ending now: requests in flight are dropped"]


@pytest.mark.parametrize(("signals", "calls"), [(1, ["stop", "finish"]), (2, ["abort", "finish"])])
def test_a_signal_while_the_job_is_being_started_stops_it(signals: int, calls: list[str]) -> None:
    job = FakeJob(None)
    with Signals() as received:
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        _watch.watch(job, Display(), received, shutdown_timeout=10)
    assert (signal.SIGINT, calls) == (received.first, job.calls)


def test_only_the_given_signals_stop_the_job() -> None:
    job = FakeJob(signal.SIGTERM, None)
    _, stopped_by = watch(job, Display(), signals=[signal.SIGINT, signal.SIGTERM])
    assert (signal.SIGTERM, ["stop", "finish"]) == (stopped_by, job.calls)


def test_a_terminal_that_goes_away_stops_the_job_once_however_many_signals_come() -> None:
    job, display = FakeJob(signal.SIGHUP, None, signal.SIGHUP, None), Recorder()
    _, stopped_by = watch(job, display, signals=[signal.SIGHUP])
    assert (signal.SIGHUP, ["stop", "finish"]) == (stopped_by, job.calls)
    assert len(display.messages) == 1


def test_the_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    watch(FakeJob(None), Display())
    assert before is signal.getsignal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = FakeJob(signal.SIGINT, None)
        assert watch(job, Display())[1] is None
        assert ["finish"] == job.calls
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_job_can_be_watched_from_another_thread() -> None:
    rows = []
    thread = threading.Thread(target=lambda: rows.append(watch(FakeJob(None), Display())[0].rows))
    thread.start()
    thread.join()
    assert rows == [100_000]


def test_an_exception_while_watching_ends_the_job() -> None:
    job, display = FakeJob(KeyboardInterrupt), Recorder()
    with pytest.raises(KeyboardInterrupt):
        watch(job, display)
    assert (["abort"], False) == (job.calls, display.open)


def test_a_display_that_cannot_write_does_not_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Display):
        def update(self, snapshot: Snapshot) -> None:  # noqa: ARG002 - it never gets that far
            raise BrokenPipeError

    monkeypatch.setattr(_watch, "DRAW_EVERY_S", 0.0)
    job = FakeJob(None, None)
    watch(job, Broken())
    assert ["finish"] == job.calls


def test_each_stall_of_the_process_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "DRAW_EVERY_S", 0)
    stalls = iter([0.0, 0.0, 0.4, 6.44, 6.44, 7.9, 7.9])

    class Stalls(FakeJob):
        def snapshot(self) -> str:
            return snapshot_json(stalled_s=next(stalls))

    display = Recorder()
    watch(Stalls(None, None, None, None, None), display)
    assert ["the process was stopped for 6.0 s", "the process was stopped for 1.5 s"] == display.messages
