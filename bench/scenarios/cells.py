"""Of what kinds requests are compared with those of an older version, and how many in flight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness import nginx
from harness.many_hosts import HOSTS
from harness.servers import BODY
from rivals.headgate import FORMATS, Format

_ALL: Final = (64, 1_000, 10_000)
_NOT_WORSE: Final = 1.0
_LONG_WAY: Final = 0.97
_POSTED_BYTES: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Requests of one kind.

    Attributes:
        name: In the names of cells.
        words: For people.
        in_flight: How many, in turn.
        formats: What is kept of the answers.
        peers: Clients that can do the same.
        path: Of the URLs.
        tls: Whether they are asked over TLS.
        hosts: So many are asked in turn; none: the server's own.
        flags: Of the command.
        body_bytes: Of an answer, as it comes.
        bound: The least that requests a second may be of those of the version before.
    """

    name: str
    words: str
    in_flight: tuple[int, ...] = _ALL
    formats: tuple[Format, ...] = ("none",)
    peers: tuple[str, ...] = ()
    path: str = ""
    tls: bool = False
    hosts: int = 0
    flags: tuple[str, ...] = ()
    body_bytes: int = len(BODY)
    bound: float = _LONG_WAY


KINDS: Final = (
    Kind(name="plain", words="GET of one host", formats=FORMATS, peers=("wrk", "floor"), bound=_NOT_WORSE),
    Kind(name="hosts", words=f"{HOSTS:,} hosts in turn", formats=FORMATS, hosts=HOSTS, bound=_NOT_WORSE),
    Kind(
        name="tls",
        words="TLS, connections kept",
        in_flight=(64, 1_000),
        peers=("wrk",),
        tls=True,
        flags=("--insecure",),
        bound=_NOT_WORSE,
    ),
    # paced by the server: with fewer in flight, client and server would wait for the clock
    Kind(name="pieces", words="head and body apart", in_flight=(1_000,), path=nginx.IN_PIECES),
    Kind(
        name="encoded",
        words="JSON in gzip",
        in_flight=(1_000,),
        path=nginx.ENCODED,
        body_bytes=len(nginx.ENCODED_BODY),
    ),
    Kind(
        name="post",
        words=f"POST of {_POSTED_BYTES:,} bytes",
        in_flight=(1_000,),
        flags=("--method", "POST", "--data", "x" * _POSTED_BYTES),
    ),
    Kind(name="closing", words="a connection for each request", in_flight=(1_000,), path=nginx.CLOSING),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """Requests of one kind, so many in flight."""

    kind: Kind
    concurrency: int

    @property
    def name(self) -> str:
        """`tls-64`."""
        return f"{self.kind.name}-{self.concurrency}"


CELLS: Final = {cell.name: cell for kind in KINDS for cell in (Cell(kind, c) for c in kind.in_flight)}
NAMES: Final = (*(kind.name for kind in KINDS), *CELLS)
"""What can be asked for: all cells of a kind, or one."""


def chosen(names: Sequence[str]) -> list[Cell]:
    """In the order of the table; all, if none is named."""
    return [cell for cell in CELLS.values() if not names or {cell.name, cell.kind.name} & set(names)]
