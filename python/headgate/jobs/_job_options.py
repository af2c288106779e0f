"""The options of one job, complete: as the engine reads them, by their names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, NoReturn

from headgate import _mocks
from headgate._checks import seconds_of
from headgate._message import Mention, Message, as_keyword, message_of, spelled
from headgate._option import OptionSet
from headgate._url_user import without_user
from headgate.jobs import _secret_file
from headgate.jobs._auth import is_token_source
from headgate.jobs._options import ENTRIES, FETCH, PLAN, RETRY, SET

if TYPE_CHECKING:
    from headgate.jobs._rows_input import RowsInput


_REMEMBERED: Final = tuple(name for name, option in ENTRIES.items() if option.settable or option.inherited)


class Mistake(NamedTuple):
    """An option that can't be.

    Attributes:
        option: Its Python name.
        pieces: What is wrong, and what would be right.
    """

    option: str
    pieces: Message

    @property
    def message(self) -> str:
        """The same, with options as Python knows them."""
        return spelled(self.pieces, as_keyword)


def _from_json(mistakes: str) -> list[Any]:
    """Returns the mistakes that the engine found; without any, `json` is not imported, which takes 1 ms."""
    if mistakes == "[]":
        return []
    import json  # noqa: PLC0415 - as above

    found: list[Any] = json.loads(mistakes)
    return found


class JobOptions:
    """A whole set of options, each an attribute; those that were not given have their defaults."""

    options: ClassVar[OptionSet[Any]]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the entry says
            ...

    def __init__(self, given: Mapping[str, Any], **places: object) -> None:
        vars(self).update(places, **self.options.complete(given), given=tuple(filter(given.__contains__, _REMEMBERED)))
        auth, provider = vars(self).get("auth"), None
        if is_token_source(auth):
            from headgate.jobs._token_provider import TokenProvider  # noqa: PLC0415 - it imports asyncio

            provider = TokenProvider(auth)
            if (ttl := getattr(auth, "ttl", None)) is not None:
                vars(self).update(token_ttl=seconds_of(ttl))
        vars(self).update(token_provider=provider)

    @property
    def mock(self) -> object | None:
        """The mock transport that replaces the network now; `None` if there is none."""
        app, mock = vars(self).get("app"), _mocks.active()
        if app is not None:
            network: object = app.network
            return network
        return None if mock is None else mock.network_for(self)

    @property
    def secret_files(self) -> list[tuple[str, str]]:
        """The options whose values came from files that the engine reads again, each with the path."""
        return _secret_file.files_of(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        from dataclasses import FrozenInstanceError  # noqa: PLC0415 - only after a mistake

        raise FrozenInstanceError(f"can't assign to {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: ClassVar[None]  # type: ignore[assignment] # it holds lists

    def __repr__(self) -> str:
        values = (f"{name}={self._shown(name, value)}" for name, value in vars(self).items())
        return f"{type(self).__name__}({', '.join(values)})"

    def _shown(self, name: str, value: object) -> str:
        """A value without what may be secret."""
        entry = self.options.entries.get(name)
        if entry is not None and getattr(entry.option, "secret", False) and value not in (None, (), []):
            return "***"
        if isinstance(value, tuple):
            value = tuple(without_user(each) if isinstance(each, str) else each for each in value)
        return repr(without_user(value) if isinstance(value, str) else value)

    def mistakes(self) -> list[Mistake]:
        """Returns all mistakes that the options show by themselves, in the order of the options."""
        from headgate import _native  # noqa: PLC0415 - not for the help

        found = [(option, message_of(pieces)) for option, pieces in _from_json(self._mistakes_in(_native))]
        order = list(vars(self))
        found = sorted([*found, *self._own_mistakes()], key=lambda mistake: order.index(mistake[0]))
        return [Mistake(option=option, pieces=pieces) for option, pieces in found]

    def _mistakes_in(self, native: Any) -> str:  # noqa: ANN401 - a module
        """Returns those that the engine finds, as JSON."""
        found: str = native.mistakes_in_fetch(self)
        return found

    def _own_mistakes(self) -> Iterator[tuple[str, Message]]:
        """Yields those in options that the engine does not have."""
        for name, entry in self.options.entries.items():
            value, check = getattr(self, name), entry.option.check
            if check is None or (value is None and entry.option.default is None):
                continue
            try:
                check(value)
            except (TypeError, ValueError) as error:
                yield name, (str(error),)


class FetchOptions(JobOptions):
    """The options of a job, as the engine reads them."""

    options: ClassVar[OptionSet[Any]] = FETCH
    needs_output: ClassVar[bool] = True

    def __init__(
        self,
        *,
        input: str | Sequence[str],  # noqa: A002 - as in `fetch`
        output: str | None = None,
        rows: "RowsInput | None" = None,
        **given: Any,  # noqa: ANN401 - as above
    ) -> None:
        self.rows: RowsInput | None
        inputs = (input,) if isinstance(input, str) else tuple(input)
        super().__init__(given, input=inputs, output=output, rows=rows)


class PlanOptions(FetchOptions):
    """A job that is looked at before it begins: it may have no output yet."""

    options = PLAN
    needs_output = False

    def _own_mistakes(self) -> Iterator[tuple[str, Message]]:
        if self.assume_latency is not None and self.probe is not None:
            both = ("and ", Mention("probe"), " both set the time of a response: leave one of them out")
            yield "assume_latency", both
        yield from super()._own_mistakes()


class RetryOptions(JobOptions):
    """The options of a retry, as the engine reads them."""

    options = RETRY

    def __init__(self, *, output: str, **given: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(given, output=output)

    def _mistakes_in(self, native: Any) -> str:  # noqa: ANN401 - as above
        found: str = native.mistakes_in_retry(self)
        return found


class SetOptions(JobOptions):
    """The options to set of a running job: only those that were given, each as text that the engine parses."""

    options = SET

    def __init__(self, *, output: str | None, texts: Mapping[str, str]) -> None:
        vars(self).update(texts, output=output, texts=texts)

    def _mistakes_in(self, native: Any) -> str:  # noqa: ANN401 - as above
        found: str = native.mistakes_in_settings(self.texts)
        return found

    def _own_mistakes(self) -> Iterator[tuple[str, Message]]:
        yield from ()
