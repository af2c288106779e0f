"""The plan of a job, which the engine computes and returns as JSON."""

import json
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from headgate._figures import Sentence, read
from headgate._message import Spell, as_keyword

DirectoryUse: TypeAlias = Literal["new", "resumed", "finished", "replaced", "none"]
"""The effect of a job on its directory: a new job, a resumed one, none, replaced results; or there is no directory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRows:
    """A host, and how many of the rows that were read have it."""

    host: str
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InvalidCause:
    """Why rows can't be sent, how many there are, and the first of them."""

    message: str
    rows: int
    first_row: int
    url: str
    detail: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyFile:
    """A file whose contents are sent, and its current length."""

    path: str
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyPiece:
    """A piece of a body: text, base64 of other bytes, or a file."""

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
        row: The index of the row.
        url: The URL, as the input has it, without a user.
        target: The URL of the request.
        line: The request line.
        headers: Names and values in the order in which they are sent; secret values are `***`.
        secret: Names of the headers whose values are left out.
        gets_credentials: Whether its host gets the credentials of the job, including the client certificate.
        body: The body.
        curl: A command for a POSIX shell that sends the same request; secret values are variables.
        variables: The names of these variables.
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
    """The rate that one limit allows, as if it were the only one.

    Attributes:
        option: The option of the limit: `rate`, `rate_per_host`, `cost_rate`, `concurrency` or `concurrency_per_host`.
        per_s: Requests of the whole job per second.
        limit: The limit itself, per second or in flight: of the whole job, or of `host`.
        host: The slowest host, if the limit is per host.
        host_share: Its share of the rows that were read, from 0 to 1.
    """

    option: str
    per_s: float
    limit: float
    host: str | None
    host_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialUse:
    """The hosts that get the credentials of a job.

    Attributes:
        origins: The origins that get them, as `credentials_for` has them.
        rows_without: Of the rows that were read, those that are sent without credentials.
    """

    origins: tuple[str, ...]
    rows_without: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The resources of this machine that the job needs, and their limits.

    Attributes:
        concurrency: Requests in flight, and so connections.
        threads: Worker threads.
        files: Open files that the job needs.
        files_allowed: The limit of open files of this process.
        ports: Local ports for connections to one address, if all rows have the same.
        ports_there_are: The number of local ports; `None`: unknown.
    """

    concurrency: int
    threads: int
    files: int
    files_allowed: int
    ports: int
    ports_there_are: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskUse:
    """The disk space that the results need, in bytes.

    Attributes:
        row_bytes: The mean size of a row of results, with its body if that is saved as a file.
        row_bytes_from: How that is known: from the `results` that the job has written, from the responses of a `probe`,
            or `assumed`.
        needed: What the remaining rows need; `None`: their number is not known.
        free: What is free on the file system of the results; `None`: not known.
        min_free: What the job leaves free.
    """

    row_bytes: float
    row_bytes_from: Literal["results", "probe", "assumed"]
    needed: int | None
    free: int | None
    min_free: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPolicy:
    """The addresses to which connections are allowed.

    Attributes:
        network: `any` or `public`.
        allow_net: Networks that are allowed in any case, unless denied.
        deny_net: Networks that are denied in any case.
        allow_port: The allowed ports; empty: all.
    """

    network: str
    allow_net: tuple[str, ...]
    deny_net: tuple[str, ...]
    allow_port: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """The result of requests that were sent to measure the latency.

    Attributes:
        requests: How many were sent, one after another.
        latency_s: The median; `None`: there was no response.
        response_bytes: The mean size of the body of a response, as it arrived; `None`: there was none.
        statuses: Responses by status.
        errors: Failed requests by error kind.
    """

    requests: int
    latency_s: float | None
    response_bytes: float | None
    statuses: dict[int, int]
    errors: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The figures of a plan, which `headgate.Plan` describes."""

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
    requests_before: int
    max_requests: int | None
    cost_before: int
    cost_left: int | None
    max_cost: int | None
    directory: DirectoryUse
    rows_replaced: int
    hosts_by: str
    different_hosts: int
    hosts: tuple[HostRows, ...]
    invalid_rows: int
    invalid_causes: tuple[InvalidCause, ...]
    equal_requests: int
    disk: DiskUse | None
    credentials: CredentialUse | None
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
        """Reads the JSON of the engine; `spell` spells options in its messages."""
        return read(cls, json.loads(text), spell)
