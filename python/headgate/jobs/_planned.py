"""What a job would do, before it does it; the engine tells it as JSON."""

import json
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from headgate._figures import Sentence, read
from headgate._message import Spell, as_keyword

DirectoryUse: TypeAlias = Literal["begun", "resumed", "finished", "replaced", "none"]
"""What a job does with its directory: begin there, go on, do nothing, replace what is there; or it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRows:
    """A host, and how many of the rows that were looked at ask it."""

    host: str
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InvalidRow:
    """A row that can't be sent, and why."""

    row: int
    url: str
    message: str
    detail: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyFile:
    """A file whose contents are sent, and how long it is now."""

    path: str
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyPiece:
    """A piece of a body, one of these."""

    text: str | None = None
    base64: str | None = None
    file: BodyFile | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """The body of a request: `text` if it is UTF-8, `base64` if it is not, `pieces` if some of it is in files."""

    bytes: int
    text: str | None
    base64: str | None
    pieces: tuple[BodyPiece, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRequest:
    """A request as it would be sent.

    Attributes:
        row: Its ordinal.
        url: Its URL, as the input has it, without a user.
        target: The URL that is asked.
        line: The request line.
        headers: Names and values in the order in which they are sent; secret values are `***`.
        secret: Names of the headers whose values are left out.
        gets_credentials: Whether its host gets the credentials of the job, the client certificate among them.
        body: What follows them.
        curl: A command for a POSIX shell that sends the same; for a secret value it takes a variable.
        variables: The names of these.
    """

    row: int
    url: str
    target: str
    line: str
    headers: tuple[tuple[str, str], ...]
    secret: tuple[str, ...]
    gets_credentials: bool
    body: Body | None
    curl: str = ""
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """How fast one limit lets the job go, as if it were the only one.

    Attributes:
        option: The option that says so: `rate`, `rate_per_host`, `rate_cost`, `concurrency` or `concurrency_per_host`.
        per_s: Requests of the whole job each second.
        limit: The limit itself, each second or in flight: of the whole job, or of `host`.
        host: The host that takes longest, where each has a limit.
        host_share: Its share of the rows that were looked at, from 0 to 1.
    """

    option: str
    per_s: float
    limit: float
    host: str | None
    host_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialUse:
    """Where the credentials of a job go.

    Attributes:
        origins: The origins that get them, as `credentials_for` has them.
        rows_without: Of the rows that were looked at, those that are sent without.
    """

    origins: tuple[str, ...]
    rows_without: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What is needed of this machine, and what it has.

    Attributes:
        concurrency: Requests in flight, and so connections.
        threads: Worker threads.
        files: Files that are open then.
        files_allowed: How many this process may have open.
        ports: Local ports for connections to one address, if all rows go there.
        ports_there_are: How many there are; `None`: the system doesn't tell.
    """

    concurrency: int
    threads: int
    files: int
    files_allowed: int
    ports: int
    ports_there_are: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPolicy:
    """Which addresses may be connected to.

    Attributes:
        network: `any` or `public`.
        allow_net: Networks that may be, whatever they are.
        deny_net: Networks that may not be, whatever allows them.
        allow_port: The only ports; empty: all.
    """

    network: str
    allow_net: tuple[str, ...]
    deny_net: tuple[str, ...]
    allow_port: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Requests that were sent to see how long an answer takes.

    Attributes:
        requests: How many, one after another.
        latency_s: The median; `None`: there was no answer.
        statuses: Answers by status.
        errors: Requests without an answer by kind of error.
    """

    requests: int
    latency_s: float | None
    statuses: dict[int, int]
    errors: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """What was found out; `headgate.Plan` describes it."""

    input: str
    output: str | None
    rows: int | None
    rows_exact: bool
    rows_read: int
    bytes: int | None
    compressed: bool
    done: int
    left: int | None
    requests_left: int | None
    directory: DirectoryUse
    rows_replaced: int
    hosts_by: str
    different_hosts: int
    hosts: tuple[HostRows, ...]
    invalid_rows: int
    credentials: CredentialUse | None
    first_invalid: InvalidRow | None
    requests: tuple[PlannedRequest, ...]
    ceilings: tuple[Ceiling, ...]
    network: NetworkPolicy
    latency_s: float | None
    seconds: float | None
    machine: Machine
    notes: tuple[Sentence, ...]
    probe: Probe | None = None
    time: str = ""

    @classmethod
    def from_json(cls, text: str, spell: Spell = as_keyword) -> Self:
        """Reads what the engine wrote; its sentences spell options so."""
        return read(cls, json.loads(text), spell)
