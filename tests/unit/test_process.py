"""A process stops its runs when it gets a signal, or ends."""

import os
import signal
from collections.abc import Iterator

import pytest

from headgate.jobs._signals import Runs
from support.runs import NotingRun


class FakeRun(NotingRun):
    """Ends after some calls of `wait` once it was stopped, or when it is aborted."""

    def __init__(self, looks: int = 2) -> None:
        super().__init__()
        self._looks_left = looks

    def wait(self, timeout_s: float) -> bool:
        assert timeout_s <= 0.1
        if "abort" in self.calls:
            return True
        if "stop" not in self.calls:
            return False
        self._looks_left -= 1
        return self._looks_left < 0


@pytest.fixture
def runs() -> Iterator[Runs]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Runs()
    signal.signal(signal.SIGTERM, before)


def test_at_the_end_of_the_process_all_runs_are_stopped_and_waited_for(runs: Runs) -> None:
    both = [FakeRun(), FakeRun(5)]
    for run in both:
        runs.add(run)
    runs.end()
    assert [["stop"], ["stop"]] == [run.calls for run in both]
    assert all(run.wait(0) for run in both)


def test_an_interrupt_at_the_end_of_the_process_ends_them_now(runs: Runs) -> None:
    class Interrupted(FakeRun):
        def wait(self, timeout_s: float) -> bool:
            if "abort" not in self.calls:
                raise KeyboardInterrupt
            return super().wait(timeout_s)

    run = Interrupted()
    runs.add(run)
    runs.end()
    assert ["stop", "abort"] == run.calls


def test_runs_that_have_ended_are_forgotten_when_another_begins(runs: Runs) -> None:
    ended = FakeRun()
    runs.add(ended)
    ended.abort()
    runs.add(FakeRun())
    runs.stop()
    assert ["abort"] == ended.calls


def test_sigterm_is_handled_while_something_runs_and_restored_after_the_last_run(runs: Runs) -> None:
    first, second = FakeRun(), FakeRun()
    for run in (first, second):
        runs.add(run)
        runs.take_sigterm()
    assert runs.receive == signal.getsignal(signal.SIGTERM)
    runs.discard(first)
    assert runs.receive == signal.getsignal(signal.SIGTERM)
    runs.discard(second)
    assert signal.SIG_DFL is signal.getsignal(signal.SIGTERM)


def test_a_handler_of_the_program_stays(runs: Runs) -> None:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    run = FakeRun()
    runs.add(run)
    runs.take_sigterm()
    os.kill(os.getpid(), signal.SIGTERM)
    runs.discard(run)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ([signal.SIGTERM, signal.SIGTERM], []) == (received, run.calls)


def test_after_a_fork_the_child_has_no_runs(runs: Runs) -> None:
    run = FakeRun()
    runs.add(run)
    runs.forget()
    runs.end()
    assert [] == run.calls
