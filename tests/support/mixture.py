"""Rows of every kind, each with the outcome that the test server gives it.

No row fails such that the client would resend it silently (RFC 9110 section 9.2.2): all faults send some bytes before
they end the connection. So the server counts exactly one request for each row.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from support.ledger import Ending
from support.run import get, headgate

_REFERENCE: Final = "reference"
_LONGEST_BYTES: Final = 3_001
_SLOW_S: Final = 0.05
_SLOWEST_S: Final = 0.6
_GREETING: Final = b"Hello, World!"

# Of a thousand rows. The slowest delay the watermark while all other rows continue.
_SHARES: Final = {
    "echo": 700,
    "bytes": 150,
    "not found": 60,
    "slow": 50,
    "busy": 20,
    "reset": 10,
    "cut": 8,
    "slowest": 2,
}


def mixture(server: str, rows: int, *, seed: int = 0, status: int = 200) -> list[Ending]:
    """Returns the URL and the expected outcome of each row; the same seed gives the same rows.

    `status` is that of the server's default response, which slow rows get.
    """
    echo, text = _reference_echo(server), get(f"{server}/bytes/{_LONGEST_BYTES}").encode()
    make: dict[str, Callable[[int], Ending]] = {
        "echo": lambda row: Ending(f"{server}/echo/{row}", 200, None, echo(str(row))),
        "bytes": lambda row: Ending(
            f"{server}/bytes/{row % _LONGEST_BYTES}?{row}", 200, None, text[: row % _LONGEST_BYTES]
        ),
        "not found": lambda row: Ending(f"{server}/status/404?{row}", 404, None, b"404 Not Found\n"),
        "slow": lambda row: Ending(f"{server}/delay/{_SLOW_S}?{row}", status, None, _GREETING),
        "slowest": lambda row: Ending(f"{server}/delay/{_SLOWEST_S}?{row}", status, None, _GREETING),
        "busy": lambda row: Ending(f"{server}/status/503?{row}", 503, None, b"503 Service Unavailable\n"),
        "reset": lambda row: Ending(f"{server}/fault/reset-mid-body?{row}", 200, "connection_closed", b"Hello"),
        "cut": lambda row: Ending(f"{server}/fault/close-mid-headers?{row}", None, "connection_closed", None),
    }
    kinds = random.Random(seed).choices(list(_SHARES), weights=list(_SHARES.values()), k=rows)  # noqa: S311 - no secret
    return [make[kind](row) for row, kind in enumerate(kinds)]


def write_urls(path: Path, endings: Sequence[Ending]) -> Path:
    """Writes an input with their URLs: Parquet if the path says so, otherwise text."""
    if path.suffix == ".parquet":
        import pyarrow as pa  # noqa: PLC0415 - only for this one
        import pyarrow.parquet as pq  # noqa: PLC0415

        table = pa.table({"url": [ending.url for ending in endings]})
        pq.write_table(table, path, row_group_size=max(1, len(endings) // 5))
    else:
        path.write_text("".join(f"{ending.url}\n" for ending in endings))
    return path


def _reference_echo(server: str) -> Callable[[str], bytes]:
    """Returns the body of `/echo/NAME` for a name, learned from a request that belongs to no job."""
    (row,) = headgate("fetch", f"{server}/echo/{_REFERENCE}", "-o", "-", "-q", check=0).rows()
    before, found, after = str(row["body"]).partition(f"/echo/{_REFERENCE}")
    assert found, row
    return lambda name: f"{before}/echo/{name}{after}".encode()
