"""What `headgate.fetch` is asked to do: plain data, its defaults, and the rules that options keep."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from headgate._checks import SECONDS, Check, number, switch, text, whole
from headgate._version import __version__

Format: TypeAlias = Literal["parquet", "ndjson", "none"]
StrPath: TypeAlias = str | os.PathLike[str]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Statuses: TypeAlias = str | Iterable[int | str]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
STANDARD_STREAM: Final = "-"
NO_STATUS: Final = "none"

DEFAULT_FORMAT: Final[Format] = "parquet"
DEFAULT_URL_COLUMN: Final = "url"
DEFAULT_METHOD_COLUMN: Final = "method"
DEFAULT_HEADERS_COLUMN: Final = "headers"
DEFAULT_BODY_COLUMN: Final = "body"
DEFAULT_CONCURRENCY: Final = 256
DEFAULT_TIMEOUT_S: Final = 30.0
DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0
DEFAULT_METHOD: Final = "GET"
DEFAULT_METHOD_WITH_DATA: Final = "POST"
DEFAULT_MAX_BODY_BYTES: Final = 16 * 1024 * 1024
DEFAULT_FAIL_ON: Final = "408,425,429,5xx"
DEFAULT_USER_AGENT: Final = f"headgate/{__version__}"
DEFAULT_GRACE_S: Final = 10.0
DEFAULT_PART_BYTES: Final = 128 * 1024 * 1024
DEFAULT_COMMIT_EVERY_S: Final = 10.0
DEFAULT_WINDOW: Final = 4_000_000

LONGEST_WAIT_S: Final = 365 * 24 * 3600.0
"""No timeout is longer than a year: beyond it clocks overflow, and nobody waits."""

MOST: Final = 2**63 - 1
"""The largest whole number that crosses into the engine and its columns."""

# RFC 9110 section 5.6.2: what methods and names of headers are made of.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 section 15: three digits, the first of which names the class.
_STATUS = re.compile(r"[1-9](?:[0-9]{2}|xx|XX)")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

_AT_LEAST_0: Final = whole(0, MOST)
_AT_LEAST_1: Final = whole(1, MOST)
_TIME: Final = number(
    lambda seconds: 0 < seconds <= LONGEST_WAIT_S,
    f"more than 0 seconds and at most {LONGEST_WAIT_S:.0f}",
    kind=SECONDS,
)
_TIME_OR_NONE: Final = number(
    lambda seconds: 0 <= seconds <= LONGEST_WAIT_S,
    f"0 seconds or more and at most {LONGEST_WAIT_S:.0f}",
    kind=SECONDS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """An option that cannot be.

    Attributes:
        option: Its Python name.
        message: What is wrong, and what would be right.
    """

    option: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkOptions:
    """How the work is done: what a new job and a retry of one have in common.

    `headgate.fetch` says what each of them means.
    """

    concurrency: int = DEFAULT_CONCURRENCY
    threads: int | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S
    headers: list[tuple[str, str]] = field(default_factory=list)
    data: bytes | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    cacert: str | None = None
    insecure: bool = False
    dns: str | None = None
    grace_s: float = DEFAULT_GRACE_S
    part_bytes: int = DEFAULT_PART_BYTES

    def mistakes(self) -> list[Mistake]:
        """Everything that is wrong with them, as far as the options alone can tell."""
        return [Mistake(option=option, message=message) for option, message in self._mistakes()]

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        yield from self._work_mistakes()

    def _work_mistakes(self) -> Iterator[tuple[str, str]]:
        yield from self._broken(_AT_LEAST_1, "concurrency", "part_bytes")
        if self.threads is not None:
            yield from self._broken(_AT_LEAST_1, "threads")
        yield from self._broken(_TIME, "timeout_s", "connect_timeout_s")
        yield from self._broken(_AT_LEAST_0, "max_body_bytes")
        yield from self._broken(_TIME_OR_NONE, "grace_s")
        yield from self._broken(switch, "insecure")
        if self.dns is not None:
            yield from self._broken(text, "dns")
        for name, value in self.headers:
            if not _TOKEN.fullmatch(name):
                yield "headers", f"{name!r} is no name of a header"
            elif _NOT_IN_A_HEADER.search(value):
                yield "headers", f"{name} holds a control character"

    def _broken(self, rule: Check, *names: str) -> Iterator[tuple[str, str]]:
        """Those of the options that break the rule."""
        for name in names:
            try:
                rule(getattr(self, name))
            except (TypeError, ValueError) as mistake:
                yield name, str(mistake)


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchOptions(WorkOptions):
    """One job, as the engine is told of it; the engine reads these attributes by name.

    `headgate.fetch` says what each of them means.
    """

    input: str
    output: str | None = None
    format: Format = DEFAULT_FORMAT
    fresh: bool = False
    resume: bool = True
    url_column: str = DEFAULT_URL_COLUMN
    method_column: str = DEFAULT_METHOD_COLUMN
    headers_column: str = DEFAULT_HEADERS_COLUMN
    body_column: str = DEFAULT_BODY_COLUMN
    keep: tuple[str, ...] = ()
    head: int | None = None
    method: str = DEFAULT_METHOD
    fail_on: str = DEFAULT_FAIL_ON
    user_agent: str = DEFAULT_USER_AGENT
    commit_every_s: float = DEFAULT_COMMIT_EVERY_S
    window: int = DEFAULT_WINDOW

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        if not self.input:
            yield "input", "is missing: name a file, a URL with ranges, or - for lines on standard input"
        yield from self._output_mistakes()
        for name in ("url_column", "method_column", "headers_column", "body_column"):
            yield from self._broken(_column, name)
        yield from self._broken(switch, "fresh", "resume")
        if self.head is not None:
            yield from self._broken(_AT_LEAST_0, "head")
        yield from self._broken(_TIME, "commit_every_s")
        yield from self._broken(_AT_LEAST_1, "window")
        yield from self._work_mistakes()
        yield from self._request_mistakes()

    def _output_mistakes(self) -> Iterator[tuple[str, str]]:
        if self.format not in FORMATS:
            yield "format", f"must be one of {', '.join(FORMATS)}, not {self.format!r}"
        elif self.format == "none" and self.output is not None:
            yield "output", "keeps nothing with the format none: leave one of them out"
        elif self.format != "none" and not self.output:
            yield "output", "is missing: name a directory for the results, or - for NDJSON on standard output"
        elif self.format == "parquet" and self.output == STANDARD_STREAM:
            yield "format", "parquet cannot go to standard output: use ndjson, or name a directory"

    def _request_mistakes(self) -> Iterator[tuple[str, str]]:
        yield from self._broken(_method, "method")
        yield from self._broken(_header_value, "user_agent")
        yield from self._broken(_statuses, "fail_on")


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryOptions(WorkOptions):
    """Which failed rows of a job to ask again, as the engine is told of it; it reads these attributes by name.

    `headgate.Job.retry` says what each of them means.
    """

    output: str
    only: tuple[str, ...] = ()

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        if not self.output:
            yield "output", "is missing: name the directory of a job"
        elif self.output == STANDARD_STREAM:
            yield "output", "must be the directory of a job: what went to standard output is not remembered"
        if "" in self.only:
            yield "only", "names an empty kind: write kinds as timeout,status:503"
        yield from self._work_mistakes()


def _column(value: str) -> None:
    text(value)
    if not value:
        raise ValueError("is empty: name a column of the input")


def _method(value: str) -> None:
    text(value)
    if not _TOKEN.fullmatch(value):
        raise ValueError(f"{value!r} is no HTTP method")


def _header_value(value: str) -> None:
    text(value)
    if _NOT_IN_A_HEADER.search(value):
        raise ValueError("holds a control character")


def _statuses(value: str) -> None:
    text(value)
    if value.strip() not in ("", NO_STATUS):
        for part in map(str.strip, value.split(",")):
            if not _STATUS.fullmatch(part):
                raise ValueError(f"{part!r} is no status: write codes and classes, as 429,5xx, or none")


def method_for(method: str | None, data: bytes | None) -> str:
    """The method of rows that do not name one: as in curl, `POST` where there is data."""
    if method is not None:
        return method
    return DEFAULT_METHOD if data is None else DEFAULT_METHOD_WITH_DATA


def format_for(form: Format | None, output: str | None) -> Format:
    """The format where none is named: standard output takes NDJSON, a directory Parquet."""
    if form is not None:
        return form
    return "ndjson" if output == STANDARD_STREAM else DEFAULT_FORMAT
