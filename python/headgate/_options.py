"""What `headgate.fetch` is asked to do: plain data, its defaults, and the rules that options keep."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

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
        yield from self._whole("concurrency", self.concurrency, least=1)
        yield from self._whole("threads", self.threads, least=1, optional=True)
        yield from self._seconds("timeout_s", self.timeout_s)
        yield from self._seconds("connect_timeout_s", self.connect_timeout_s)
        yield from self._whole("max_body_bytes", self.max_body_bytes, least=0)
        yield from self._seconds("grace_s", self.grace_s, zero=True)
        yield from self._whole("part_bytes", self.part_bytes, least=1)
        yield from self._switch("insecure", self.insecure)
        if self.dns is not None and not self._is_text("dns"):
            yield self._no_text("dns")
        for name, value in self.headers:
            if not _TOKEN.fullmatch(name):
                yield "headers", f"{name!r} is no name of a header"
            elif _NOT_IN_A_HEADER.search(value):
                yield "headers", f"{name} holds a control character"

    def _is_text(self, name: str) -> bool:
        return isinstance(getattr(self, name), str)

    def _no_text(self, name: str) -> tuple[str, str]:
        return name, f"must be text, not {getattr(self, name)!r}"

    @staticmethod
    def _switch(name: str, value: object) -> Iterator[tuple[str, str]]:
        if not isinstance(value, bool):
            yield name, f"must be True or False, not {value!r}"

    @staticmethod
    def _whole(name: str, value: object, *, least: int, optional: bool = False) -> Iterator[tuple[str, str]]:
        if optional and value is None:
            return
        if not isinstance(value, int) or isinstance(value, bool):
            yield name, f"must be a whole number, not {value!r}"
        elif not least <= value <= MOST:
            bound = f"at least {least}" if value < least else f"at most {MOST}"
            yield name, f"must be {bound}, not {value}"

    @staticmethod
    def _seconds(name: str, value: object, *, zero: bool = False) -> Iterator[tuple[str, str]]:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield name, f"must be a number of seconds, not {value!r}"
        elif not (0 <= value <= LONGEST_WAIT_S) or (value == 0 and not zero):
            bound = "0 seconds or more" if zero else "more than 0 seconds"
            yield name, f"must be {bound} and at most {LONGEST_WAIT_S:.0f}, not {value}"


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
            if not self._is_text(name):
                yield self._no_text(name)
            elif not getattr(self, name):
                yield name, "is empty: name a column of the input"
        yield from self._switch("fresh", self.fresh)
        yield from self._switch("resume", self.resume)
        yield from self._whole("head", self.head, least=0, optional=True)
        yield from self._seconds("commit_every_s", self.commit_every_s)
        yield from self._whole("window", self.window, least=1)
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
        if not self._is_text("method"):
            yield self._no_text("method")
        elif not _TOKEN.fullmatch(self.method):
            yield "method", f"{self.method!r} is no HTTP method"
        if not self._is_text("user_agent"):
            yield self._no_text("user_agent")
        elif _NOT_IN_A_HEADER.search(self.user_agent):
            yield "user_agent", "holds a control character"
        yield from self._status_mistakes()

    def _status_mistakes(self) -> Iterator[tuple[str, str]]:
        if not self._is_text("fail_on"):
            yield self._no_text("fail_on")
        elif self.fail_on.strip() not in ("", NO_STATUS):
            for part in map(str.strip, self.fail_on.split(",")):
                if not _STATUS.fullmatch(part):
                    yield "fail_on", f"{part!r} is no status: write codes and classes, as 429,5xx, or none"


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
