"""The options of one job, complete: as the engine reads them, by their names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from headgate import _mocks
from headgate._checks import Check, text
from headgate._message import Mention, Message, as_keyword, spelled
from headgate._option import OptionSet
from headgate._url_user import without_user
from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import AFTER_SCHEME, ANY_HOST, FORMATS, LIMIT_BY, NONE, STANDARD_STREAM
from headgate.jobs._options import FETCH, PLAN, RETRY, SET

BODIES: Final = ("data", "json", "data_urlencode", "form", "body_file_column")
"""The options that say what the body of a request is; but for the first, in place of a column with bodies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
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


class JobOptions:
    """A whole set of options, each an attribute; those that were not given have their defaults."""

    options: ClassVar[OptionSet[Any]]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the entry says
            ...

    def __init__(self, given: Mapping[str, Any], **places: str | tuple[str, ...] | None) -> None:
        vars(self).update(places, **self.options.complete(given), given=tuple(filter(given.__contains__, SET.entries)))

    @property
    def mock(self) -> object | None:
        """Who answers in place of the network, if anybody does now."""
        return _mocks.active()

    def __setattr__(self, name: str, value: object) -> NoReturn:
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
        """Everything that is wrong with them, as far as the options alone can tell."""
        return [Mistake(option=option, pieces=told) for option, told in self._mistakes()]

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        for name, entry in self.options.entries.items():
            yield from _refused(name, getattr(self, name), entry.check)


class WorkOptions(JobOptions):
    """What a new job and a retry have in common.

    Attributes:
        given: Those that were given, of those that can be set while a job runs: what an earlier run was told of them
            holds no more.
    """

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        yield from super()._mistakes()
        yield from self._hosts_refused()
        yield from self._cost_refused()
        yield from self._together_refused()
        yield from self._files_refused()
        yield from self._bodies_refused()

    def _together_refused(self) -> Iterator[tuple[str, Message]]:
        """Switches of which each takes back what the other says, and what says nothing by itself."""
        for one, other in (("ipv6", "ipv4"), ("http2_prior_knowledge", "http1_1")):
            if getattr(self, one) and getattr(self, other):
                yield one, ("can't be combined with ", Mention(other), ": leave one of them out")
        if self.key is not None and self.cert is None:
            yield "key", ("is the key of a client certificate: give ", Mention("cert"), ", too")
        if self.truncate_body and getattr(self, "no_body", False):
            yield "truncate_body", ("can't be combined with ", Mention("no_body"), ", which reads no bodies")
        for of_redirects in ("keep_redirects", "cookies"):
            if getattr(self, of_redirects, False) and self.redirects == "none":
                yield of_redirects, ("has no effect with ", Mention("redirects", "none"))

    def _files_refused(self) -> Iterator[tuple[str, Message]]:
        """A body is compressed as a whole, and one with files is never in memory as a whole."""
        if getattr(self, "compress_body", None) is None:
            return
        because = ": files are sent as they are"
        if getattr(self, "body_file_column", None) is not None:
            yield "compress_body", ("can't be combined with ", Mention("body_file_column"), because)
        if any(field.partition("=")[2].startswith("@") for field in getattr(self, "form", ())):
            yield "compress_body", ("can't be combined with files of ", Mention("form"), because)

    def _bodies_refused(self) -> Iterator[tuple[str, Message]]:
        """Several bodies of one request."""
        given = [name for name in BODIES if getattr(self, name, None) not in (None, ())]
        for other in given[1:]:
            yield other, ("can't be combined with ", Mention(given[0]), ": a request has one body")

    def _hosts_refused(self) -> Iterator[tuple[str, Message]]:
        """Names of hosts that are none where hosts are told apart as `limit_by` says."""
        if self.limit_by not in LIMIT_BY:
            return
        for option in ("rate_per_host", "concurrency_per_host"):
            for host, _ in getattr(self, option) or ():
                if host != ANY_HOST:
                    yield from _refused(option, host, partial(rules.host, limit_by=self.limit_by))

    def _cost_refused(self) -> Iterator[tuple[str, Message]]:
        """A limit of costs where nothing says what a row costs, and the reverse."""
        column, of, found = Mention("cost_column"), Mention("cost_of"), Mention("cost_from")
        told = [mention for mention in (column, of) if getattr(self, mention.option) is not None]
        is_found = self.cost_from is not None
        if self.rate_cost is None:
            for mention in [*told, *([found] if is_found else [])]:
                yield mention.option, ("limits nothing without ", Mention("rate_cost", "150000/m"))
        elif not told and not is_found:
            known = (column, ", ", Mention("cost_of", "body-bytes"), " or ", found)
            yield "rate_cost", ("needs the cost of each row: give ", *known)
        if len(told) > 1:
            yield "cost_of", ("can't be combined with ", column, ": a row has one cost")


def _refused(name: str, value: object, rule: Check) -> Iterator[tuple[str, Message]]:
    try:
        rule(value)
    except (TypeError, ValueError) as error:
        yield name, (str(error),)


class AskingOptions(WorkOptions):
    """What has an input, whose columns say what is asked."""

    def _columns_refused(self) -> Iterator[tuple[str, Message]]:
        """Columns that were chosen by name and would not be read, as something else says what they would."""
        chosen = {
            name: getattr(self, name) != self.options.entries[name].option.default
            for name in ("url_column", "body_column")
        }
        if self.url is not None and chosen["url_column"]:
            yield (
                "url_column",
                ("can't be combined with ", Mention("url"), ", which makes the URLs: leave one of them out"),
            )
        made = [name for name in BODIES[1:] if getattr(self, name) not in (None, ())]
        if made and chosen["body_column"]:
            yield "body_column", ("can't be combined with ", Mention(made[0]), ": a request has one body")


class FetchOptions(AskingOptions):
    """One job, as the engine is told of it."""

    options: ClassVar[OptionSet[Any]] = FETCH
    needs_output: ClassVar[bool] = True

    def __init__(
        self,
        *,
        input: str | Sequence[str],  # noqa: A002 - as in `fetch`
        output: str | None = None,
        **given: Any,  # noqa: ANN401 - as above
    ) -> None:
        if given.get("format") is None:
            given["format"] = "ndjson" if output == STANDARD_STREAM else "parquet"
        super().__init__(given, input=(input,) if isinstance(input, str) else tuple(input), output=output)

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        yield from self._input_refused()
        if self.format == "none" and self.output is not None:
            yield "output", ("keeps nothing with the format none: leave one of them out",)
        elif self.format in FORMATS and self.format != "none" and not self.output and self.needs_output:
            yield "output", ("is missing: name a directory for the results, or - for NDJSON on standard output",)
        elif self.format == "parquet" and self.output == STANDARD_STREAM:
            yield "format", ("parquet can't go to standard output: use ndjson, or name a directory",)
        yield from self._columns_refused()
        yield from super()._mistakes()
        yield from self._saving_refused()

    def _saving_refused(self) -> Iterator[tuple[str, Message]]:
        """Saved bodies without a place for them, and what is said of them where there are none."""
        if self.save_to is None:
            if self.checksum_column is not None:
                yield "checksum_column", ("is for bodies that are saved: give ", Mention("save_to"), ", too")
            if self.save_format != "files":
                yield "save_format", ("is for bodies that are saved: give ", Mention("save_to"), ", too")
        else:
            if self.format == "none" or self.output == STANDARD_STREAM:
                yield "save_to", ("saves bodies in the output directory: name one with ", Mention("output"))
            if self.no_body:
                yield "save_to", ("can't be combined with ", Mention("no_body"), ", which reads no bodies")

    def _input_refused(self) -> Iterator[tuple[str, Message]]:
        """No input at all, or more than one where one of them is no file."""
        if not any(self.input):
            told = "is missing: name a file, a directory, a URL with ranges, or - for lines on standard input"
            yield "input", (told,)
            return
        for one in self.input:
            yield from _refused("input", one, text)
            if not one:
                yield "input", ("must not have an empty path",)
            elif len(self.input) > 1 and (one == STANDARD_STREAM or AFTER_SCHEME in one):
                what = one if one == STANDARD_STREAM else "a URL"
                yield "input", (f"{what} can't be combined with others: only files can",)


class PlanOptions(FetchOptions):
    """A job that is looked at before it begins: it may have no output yet."""

    options = PLAN
    needs_output = False

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        if self.assume_latency_s is not None and self.probe is not None:
            both = ("and ", Mention("probe"), " both say how long an answer takes: leave one of them out")
            yield "assume_latency_s", both
        yield from super()._mistakes()


class RetryOptions(WorkOptions):
    """Which failed rows of a job to ask again, as the engine is told of it."""

    options = RETRY

    def __init__(self, *, output: str, **given: Any) -> None:  # noqa: ANN401 - as above
        super().__init__({**given, "only": given.get("only") or ()}, output=output)

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        if not self.output:
            yield "output", ("is missing: name the directory of a job",)
        elif self.output == STANDARD_STREAM:
            yield "output", ("must be the directory of a job: what went to standard output is not remembered",)
        yield from super()._mistakes()


class SetOptions(JobOptions):
    """What is to be set of a job that runs: the options that were given, and no others."""

    options = SET

    def __init__(self, *, output: str | None, **given: Any) -> None:  # noqa: ANN401 - as above
        SET.complete(given)
        vars(self).update(output=output, values=given)

    def texts(self) -> dict[str, str]:
        """Each as the engine stores it."""
        return {name: _as_text(value) for name, value in self.values.items()}

    def _mistakes(self) -> Iterator[tuple[str, Message]]:
        for name, value in self.values.items():
            yield from _refused(name, value, SET.entries[name].check)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(limit if host == ANY_HOST else f"{host}={limit}" for host, limit in value) or NONE
    return NONE if value is None else str(value)
