import pickle
import re
from types import ModuleType

import pytest

import headgate
from headgate import _errors, _native
from headgate.client import _errors as client_errors


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


@pytest.mark.parametrize("module", [_errors, client_errors])
def test_the_tree_drawn_at_the_top_names_every_class(module: ModuleType) -> None:
    drawn = module.__doc__ or ""
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    assert [] == [name for name in classes if not re.search(rf"\b{name}\b", drawn)]


def test_every_kind_of_the_engine_has_a_class() -> None:
    assert sorted(kind for kind, _ in _native.ERROR_KINDS) == sorted(client_errors.CLASS_OF)
