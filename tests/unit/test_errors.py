import asyncio
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import headgate
import headgate.testing

URL = "http://127.0.0.1:1/"
RESPONSE_ERRORS = {headgate.StatusError}
"""Errors that are made from a response and not from a message."""
PUBLIC = {
    name: error
    for name in dir(headgate)
    if isinstance(error := getattr(headgate, name), type) and issubclass(error, BaseException)
}


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


@pytest.mark.parametrize(
    ("module", "error"), [("_errors", headgate.HeadgateError), ("client._errors", headgate.RequestError)]
)
def test_the_tree_at_the_top_of_a_module_names_every_class(module: str, error: type[Exception]) -> None:
    found = import_module(f"headgate.{module}")
    drawn = found.__doc__ or ""
    classes = [name for name, value in vars(found).items() if isinstance(value, type)]
    assert error.__name__ in classes
    assert [] == [name for name in classes if not re.search(rf"\b{name}\b", drawn)]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_traceback_shows_the_public_name_of_an_error(name: str) -> None:
    shown = traceback.format_exception_only(PUBLIC[name], PUBLIC[name].__new__(PUBLIC[name]))
    assert shown[0].strip().startswith(f"headgate.{name}")


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - {error.__name__ for error in RESPONSE_ERRORS}))
def test_every_public_error_can_be_pickled_by_its_public_name(name: str) -> None:
    error = PUBLIC[name]("what happened")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(error), "what happened") == (type(copy), str(copy))


def test_a_pickled_error_can_be_read_where_nothing_was_imported() -> None:
    error = headgate.ConnectTimeout("too late", url=URL, attempts=2)
    code = "import pickle, sys; error = pickle.load(sys.stdin.buffer); print(type(error), error.url, error.attempts)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, input=pickle.dumps(error))
    assert f"<class 'headgate.ConnectTimeout'> {URL} 2" == done.stdout.decode().strip()


def test_an_error_class_of_a_user_keeps_its_module() -> None:
    class OurError(headgate.RequestError):
        pass

    assert __name__ == OurError.__module__
    assert "" == OurError.kind


def test_request_error_is_the_base_of_everything_about_one_request() -> None:
    about_requests = {error for error in PUBLIC.values() if hasattr(error, "kind")}
    assert about_requests == {error for error in PUBLIC.values() if issubclass(error, headgate.RequestError)}
    assert {headgate.StatusError, headgate.InvalidRequest, headgate.ConnectError} < about_requests


def test_request_timeout_is_the_base_of_all_timeouts() -> None:
    kinds = {error.__name__: error.kind for error in headgate.RequestTimeout.__subclasses__()}
    assert {
        "ConnectTimeout": "connect_timeout",
        "PoolTimeout": "pool_timeout",
        "ReadTimeout": "timeout",
        "TotalTimeout": "total_timeout",
    } == kinds
    assert issubclass(headgate.RequestTimeout, TimeoutError)
    assert "" == headgate.RequestTimeout.kind


WRONG_IN_A_CALL: list[dict[str, Any]] = [
    {"timeout": -1},
    {"timeout": "5"},
    {"timeout": object()},
    {"redirects": "all"},
    {"auth": "ann"},
    {"cost": -1},
    {"headers": {"a": 1}},
    {"content": "a", "json": 1},
    {"json": {1}},
    {"data": 5},
]


CALLS: dict[str, Callable[..., object]] = {
    "call": lambda client, **options: client.post(URL, **options),
    "stream": lambda client, **options: client.stream("POST", URL, **options).__enter__(),
    "function": lambda _, **options: headgate.post(URL, **options),
}


@pytest.mark.parametrize("options", WRONG_IN_A_CALL)
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_value_in_a_call_is_an_invalid_request(call: str, options: dict[str, Any]) -> None:
    with headgate.Client() as client, pytest.raises(headgate.InvalidRequest) as raised:
        CALLS[call](client, **options)
    assert isinstance(raised.value, ValueError)
    assert ("invalid_request", URL, 0) == (raised.value.kind, raised.value.url, raised.value.attempts)
    assert str(raised.value).startswith(f"{URL}: ")


def test_a_wrong_value_in_a_call_of_an_event_loop_is_an_invalid_request() -> None:
    async def main() -> None:
        async with headgate.AsyncClient() as client:
            with pytest.raises(headgate.InvalidRequest, match="timeout must be seconds above 0"):
                await client.get(URL, timeout=-1)
            with pytest.raises(headgate.InvalidRequest, match="redirects must be one of"):
                async with client.stream("GET", URL, redirects="all"):  # type: ignore[arg-type] # the mistake
                    pytest.fail("there is no response")

    asyncio.run(main())


def test_the_message_of_an_invalid_request_has_no_password() -> None:
    with headgate.Client() as client, pytest.raises(headgate.InvalidRequest) as raised:
        client.get("http://ann:secret@127.0.0.1:1/", timeout=-1)
    assert "secret" not in str(raised.value)


def test_the_message_has_the_number_of_attempts_if_there_was_more_than_one() -> None:
    with headgate.testing.mock() as server, headgate.Client(retries=2, retry_delay=0.001) as client:
        server.get("/down", error=headgate.ReadTimeout)
        with pytest.raises(headgate.ReadTimeout) as raised:
            client.get("http://a.example/down")
        assert "http://a.example/down: the mock says so (3 attempts)" == str(raised.value)
        with headgate.Client(retries=0) as without, pytest.raises(headgate.ReadTimeout) as raised:
            without.get("http://a.example/down")
        assert "http://a.example/down: the mock says so" == str(raised.value)


def test_the_message_of_a_body_that_is_too_large_names_the_option() -> None:
    with headgate.testing.mock() as server, headgate.Client(max_body_size=10) as client:
        server.get("/", text="more than ten bytes")
        with pytest.raises(
            headgate.BodyTooLarge, match=r"10 bytes are allowed; raise max_body_size, of the client or of the call\)$"
        ):
            client.get("http://a.example/")


def test_an_error_of_a_request_needs_no_message() -> None:
    error = headgate.ReadTimeout()
    assert ("", "timeout", 0) == (str(error), error.kind, error.attempts)


def test_a_wrong_option_of_a_client_is_a_usage_error_and_a_wrong_name_a_type_error() -> None:
    with pytest.raises(headgate.UsageError, match="timeout") as raised:
        headgate.Client(timeout=-1)
    assert not isinstance(raised.value, headgate.RequestError)
    with headgate.Client() as client, pytest.raises(TypeError, match="did you mean headers"):
        client.get(URL, heders={})  # type: ignore[call-arg] # the mistake
