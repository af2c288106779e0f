"""An option is one entry, from which come its keyword argument, its help, its default and what is refused of it."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar, Unpack

import pytest

from headgate._checks import SECONDS, function, number, whole
from headgate._option import Option, OptionSet

T = TypeVar("T")


class Needed(TypedDict):
    limit: Annotated[int, Option(help="How many.", check=whole(1))]


class Given(Needed, Generic[T], total=False):
    timeout_s: Annotated[
        float | None,
        Option(
            help="How long.",
            default=None,
            default_means="no limit",
            check=number(lambda seconds: seconds > 0, "more than 0 seconds", kind=SECONDS),
            hint="None is no limit",
        ),
    ]
    body_bytes: Annotated[int, Option(help="How much.", default=1024, unit="bytes", check=whole(0))]
    key: Annotated[Callable[[T], str] | None, Option(help="Of what.", default=None, check=function)]
    errors: Annotated[
        Literal["raise", "skip"],
        Option(help="What of errors.", default="raise", meanings={"raise": "At once.", "yield": "No.", "skip": "Not."}),
    ]
    headers: Annotated[tuple[str, ...], Option(help="With each.", default=())]


OPTIONS = OptionSet(Given[Any], of="work")


@OPTIONS.shown_by
def work(function: Callable[[T], str], /, items: list[T], **options: Unpack[Given[T]]) -> str:
    """Works.

    Args:
        function: What to call.
        items: With what.
        **options: Are described where they are.
            There.

    Returns:
        What comes of it.
    """
    return f"{function(items[0])}{OPTIONS.read(options)}"


def test_the_signature_lists_each_option_with_its_type_and_default() -> None:
    assert [
        "limit: int",
        "timeout_s: float | None = None",
        "body_bytes: int = 1024",
        "key: collections.abc.Callable[[~T], str] | None = None",
        "errors: Literal['raise', 'skip'] = 'raise'",
        "headers: tuple[str, ...] = ()",
    ] == [str(each).replace("typing.", "") for each in list(inspect.signature(work).parameters.values())[2:]]
    assert ["function", "items"] == list(inspect.signature(work).parameters)[:2]


def test_the_docstring_says_what_each_option_does_and_what_its_default_is() -> None:
    assert inspect.getdoc(work) == inspect.cleandoc(
        """Works.

        Args:
            function: What to call.
            items: With what.
            limit: How many.
            timeout_s: How long. Defaults to no limit.
            body_bytes: How much. Defaults to `1024` bytes.
            key: Of what. Defaults to `None`.
            errors: What of errors. "raise": At once. "skip": Not. Defaults to `'raise'`.
            headers: With each. Defaults to `()`.

        Returns:
            What comes of it.
        """
    )


def test_what_is_not_given_has_its_default() -> None:
    defaults = {"timeout_s": None, "body_bytes": 1024, "key": None, "errors": "raise", "headers": ()}
    assert defaults | {"limit": 3} == OPTIONS.read({"limit": 3})
    assert defaults | {"limit": 3, "key": str} == OPTIONS.read({"key": str, "limit": 3, "timeout_s": None})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": 1, "timeout": 3}, "work() got an unexpected keyword argument 'timeout': did you mean timeout_s?"),
        ({"limt": 1}, "work() got an unexpected keyword argument 'limt': did you mean limit?"),
        ({"limit": 1, "xyz": 3}, "work() got an unexpected keyword argument 'xyz'"),
        ({}, "work() is missing a keyword argument: 'limit'"),
        ({"limit": "1"}, "limit must be an int, not str"),
        ({"limit": None}, "limit must be an int, not None"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"limit": 1, "timeout_s": "1"}, "timeout_s must be a number of seconds, not str"),
        ({"limit": 1, "timeout_s": 0.0}, "timeout_s must be more than 0 seconds, not 0; None is no limit"),
        ({"limit": 1, "key": "host"}, "key must be a function, not str"),
        ({"limit": 1, "errors": "yield"}, "errors must be one of raise, skip, not 'yield'"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        OPTIONS.read(given)
    assert message == str(raised.value)


def test_an_entry_without_an_option_is_refused_where_it_is_written() -> None:
    class Bare(TypedDict):
        limit: int

    with pytest.raises(TypeError, match="limit is annotated with no Option"):
        OptionSet(Bare, of="work")
