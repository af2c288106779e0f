"""A process stops its runs when it ends; `tests/integration/test_start.py` has what users see of that."""

import pytest

from headgate.jobs._signals import Runs
from support.runs import NotingRun


class FakeRun(NotingRun):
    """Ends after some calls of `wait` once it was stopped, or when it is aborted."""

    def __init__(self, looks: int = 2) -> None:
        super().__init__()
        self._looks_left = looks

    def wait(self, timeout: float) -> bool:
        assert timeout <= 0.1
        if "abort" in self.calls:
            return True
        if "stop" not in self.calls:
            return False
        self._looks_left -= 1
        return self._looks_left < 0


@pytest.fixture
def runs() -> Runs:
    return Runs()


def test_an_interrupt_at_the_end_of_the_process_ends_them_now(runs: Runs) -> None:
    class Interrupted(FakeRun):
        def wait(self, timeout: float) -> bool:
            if "abort" not in self.calls:
                raise KeyboardInterrupt
            return super().wait(timeout)

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
