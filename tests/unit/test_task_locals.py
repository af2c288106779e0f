"""The local variables of failed calls are cleared if the calls have ended, and only then.

Each case raises an error in a function that holds an object in a local variable, and returns the error.
"""

import asyncio
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, NoReturn

import pytest

from headgate.tasks._outcome import clear_locals
from support.virtual_clock import run_on_virtual_clock


class Held:
    """A large object."""


held: list[weakref.ref[Held]] = []


def hold() -> Held:
    value = Held()
    held.append(weakref.ref(value))
    return value


def error_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except ValueError as error:
        return error
    raise AssertionError("nothing was raised")


# -- calls that have ended


def fail() -> NoReturn:
    _kept = hold()
    raise ValueError


def fail_within_another() -> None:
    _kept = hold()
    fail()


def fail_while_handling() -> None:
    _kept = hold()
    try:
        int("none")
    except ValueError:
        fail()


def fail_with_a_cause() -> None:
    try:
        fail()
    except ValueError as cause:
        raise ValueError from cause


def fail_with_several() -> None:
    error = ExceptionGroup("several", [error_of(fail), error_of(fail_within_another)])
    raise ValueError from error


def generate_and_fail() -> Iterator[int]:
    _kept = hold()
    yield 1
    raise ValueError


def generate() -> Generator[int, None, None]:
    _kept = hold()
    yield 1


def generate_from_another() -> Generator[int, None, None]:
    _kept = hold()
    yield from generate()


def throw_into(generator: Generator[int, None, None]) -> None:
    next(generator)
    generator.throw(ValueError())


class Moment:
    def __await__(self) -> Generator[None, None, None]:
        _kept = hold()
        yield


async def wait_and_fail() -> None:
    _kept = hold()
    await asyncio.sleep(1)
    raise ValueError


async def fail_in_a_task() -> None:
    await asyncio.create_task(wait_and_fail())


async def fail_by_a_future() -> None:
    _kept = hold()
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(1, future.set_exception, ValueError())
    await future


async def throw_at_a_wait() -> None:
    async def wait() -> None:
        _kept = hold()
        await Moment()

    coroutine = wait()
    coroutine.send(None)
    coroutine.throw(ValueError())


async def generate_and_fail_async() -> None:
    async def numbers() -> AsyncIterator[int]:
        _kept = hold()
        yield 1
        raise ValueError

    async for _ in numbers():
        pass


async def throw_into_an_async_generator() -> None:
    async def numbers() -> Any:
        _kept = hold()
        yield 1

    generator = numbers()
    await anext(generator)
    await generator.athrow(ValueError())


ENDED: list[Callable[[], object]] = [
    fail,
    fail_within_another,
    fail_while_handling,
    fail_with_a_cause,
    fail_with_several,
    lambda: list(generate_and_fail()),
    lambda: throw_into(generate()),
    lambda: throw_into(generate_from_another()),
    *(
        lambda call=call: run_on_virtual_clock(call())
        for call in (
            wait_and_fail,
            fail_in_a_task,
            fail_by_a_future,
            throw_at_a_wait,
            generate_and_fail_async,
            throw_into_an_async_generator,
        )
    ),
]


@pytest.fixture(params=["not traced", "traced"])
def _tracing(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.gettrace()
    if request.param == "traced":
        sys.settrace(lambda *_: None)
    yield
    sys.settrace(before)


@pytest.mark.usefixtures("_tracing")
@pytest.mark.parametrize("call", ENDED)
def test_calls_that_have_ended_hold_nothing(call: Callable[[], object]) -> None:
    held.clear()
    error = error_of(call)
    assert any(each() is not None for each in held)
    clear_locals(error)
    assert [None] * len(held) == [each() for each in held]
    assert error.__traceback__ is not None


# -- calls that continue


class Catching:
    """Catches the error of its block."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        assert isinstance(error, ValueError)
        self.errors.append(error)
        return True


def catch_and_generate(errors: list[Exception]) -> Generator[str, None, None]:
    kept = hold()
    with Catching(errors):
        fail()
    yield "caught"
    yield f"went on with {type(kept).__name__}"


def catch_and_generate_while_handling(errors: list[Exception]) -> Generator[str, None, None]:
    kept = hold()
    try:
        fail()
    except ValueError as error:
        errors.append(error)
        yield "caught"
        yield f"went on with {type(kept).__name__}"


def catch_and_delegate(errors: list[Exception]) -> Generator[str, None, None]:
    kept = hold()
    yield from catch_and_generate(errors)
    yield f"went on with {type(kept).__name__}"


class Told:
    """Waits until it gets a value."""

    def __await__(self) -> Generator[str, None, None]:
        yield "caught"


async def catch_and_wait(errors: list[Exception]) -> str:
    kept = hold()
    try:
        fail()
    except ValueError as error:
        errors.append(error)
        await Told()
        return f"went on with {type(kept).__name__}"


async def catch_and_wait_at_the_end(errors: list[Exception]) -> str:
    kept = hold()
    try:
        fail()
    except ValueError as error:
        errors.append(error)
    finally:
        await Told()
    return f"went on with {type(kept).__name__}"


async def catch_and_yield(errors: list[Exception]) -> AsyncIterator[str]:
    kept = hold()
    try:
        fail()
    except ValueError as error:
        errors.append(error)
        await Told()
        yield f"went on with {type(kept).__name__}"


async def of_an_async_generator(errors: list[Exception]) -> str:
    return await anext(catch_and_yield(errors))


async def of_an_async_for(errors: list[Exception]) -> str:
    async for what in catch_and_yield(errors):
        return what
    return "was ended"


SUSPENDED_GENERATORS = [catch_and_generate, catch_and_generate_while_handling, catch_and_delegate]
SUSPENDED_COROUTINES = [catch_and_wait, catch_and_wait_at_the_end, of_an_async_generator, of_an_async_for]


@pytest.mark.usefixtures("_tracing")
@pytest.mark.parametrize("function", SUSPENDED_GENERATORS)
def test_a_generator_that_has_caught_the_error_continues(
    function: Callable[[list[Exception]], Generator[str, None, None]],
) -> None:
    errors: list[Exception] = []
    generator = function(errors)
    assert "caught" == next(generator)
    clear_locals(errors[0])
    assert "went on with Held" == next(generator)
    clear_locals(errors[0])
    list(generator)


@pytest.mark.parametrize("function", SUSPENDED_COROUTINES)
def test_a_coroutine_that_has_caught_the_error_continues(function: Callable[[list[Exception]], Any]) -> None:
    errors: list[Exception] = []
    coroutine = function(errors)
    assert "caught" == coroutine.send(None)
    clear_locals(errors[0])
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert "went on with Held" == ended.value.value


def test_a_running_function_that_has_caught_the_error_continues() -> None:
    kept = hold()
    try:
        fail()
    except ValueError as error:
        clear_locals(error)
    assert isinstance(kept, Held)


def test_a_function_on_another_thread_that_has_caught_the_error_continues() -> None:
    errors: list[Exception] = []
    results: list[str] = []
    is_caught, may_go_on = threading.Event(), threading.Event()

    def run() -> None:
        kept = hold()
        with Catching(errors):
            fail()
        is_caught.set()
        may_go_on.wait()
        results.append(f"went on with {type(kept).__name__}")

    thread = threading.Thread(target=run)
    thread.start()
    is_caught.wait()
    clear_locals(errors[0])
    may_go_on.set()
    thread.join()
    assert ["went on with Held"] == results


def test_errors_that_are_causes_of_one_another_are_cleared_once() -> None:
    held.clear()
    error, other, third = (error_of(fail) for _ in range(3))
    error.__cause__, other.__cause__, third.__cause__ = other, third, other
    clear_locals(error)
    assert [None] * 3 == [each() for each in held]
