"""The kinds of requests that are compared with those of an older version, and how many are in flight."""

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
        name: The name in the names of cells.
        words: The description in tables.
        in_flight: The numbers of requests in flight.
        formats: The formats of the results.
        peers: Other clients that can do the same.
        path: The path of the URLs.
        tls: Whether requests use TLS.
        hosts: The number of hosts in turn; 0: the server's own.
        flags: Further flags of the command.
        body_bytes: The size of a response body, as it is sent.
        bound: The least ratio of requests a second to those of the older version.
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
    # The server is slow here: with fewer in flight, client and server would wait for the clock.
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
    """Requests of one kind, with a number of them in flight."""

    kind: Kind
    concurrency: int

    @property
    def name(self) -> str:
        """The name, such as `tls-64`."""
        return f"{self.kind.name}-{self.concurrency}"


CELLS: Final = {cell.name: cell for kind in KINDS for cell in (Cell(kind, c) for c in kind.in_flight)}
NAMES: Final = (*(kind.name for kind in KINDS), *CELLS)
"""The names for `--cells`: of all cells of a kind, or of one."""


def chosen(names: Sequence[str]) -> list[Cell]:
    """Returns the cells with these names, in the order of the table, or all if there are no names."""
    return [cell for cell in CELLS.values() if not names or {cell.name, cell.kind.name} & set(names)]
