import pickle
import re
import sys

import pytest

import headgate


@pytest.mark.parametrize(
    ("builtin", "error"),
    [
        (ValueError, headgate.UsageError),
        (ValueError, headgate.InputError),
        (OSError, headgate.OutputError),
        (RuntimeError, headgate.InternalError),
        (RuntimeError, headgate.JobStopped),
    ],
)
def test_each_error_is_caught_by_the_builtin_people_know(
    builtin: type[Exception], error: type[headgate.HeadgateError]
) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, headgate.HeadgateError)


def test_the_engine_makes_errors_from_a_message_alone() -> None:
    error = headgate.OutputError("can't write to results: no space left on device")
    assert "can't write to results: no space left on device" == str(error)
    assert error.summary is None


def test_interrupted_passes_where_errors_are_caught() -> None:
    assert issubclass(headgate.Interrupted, KeyboardInterrupt)
    assert not issubclass(headgate.Interrupted, Exception)


@pytest.mark.parametrize("error", [headgate.UsageError("a"), headgate.OutputError("b"), headgate.Interrupted("c")])
def test_errors_can_be_sent_between_processes(error: BaseException) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(error), str(error)) == (type(copy), str(copy))


@pytest.mark.parametrize("error", [headgate.HeadgateError, headgate.RequestError])
def test_the_tree_at_the_top_of_the_module_of_an_error_names_every_class(error: type[Exception]) -> None:
    module = sys.modules[error.__module__]
    drawn = module.__doc__ or ""
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    assert error.__name__ in classes
    assert [] == [name for name in classes if not re.search(rf"\b{name}\b", drawn)]
