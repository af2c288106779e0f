"""A paid API with everything that goes wrong there, a job that calls it, and what that job may cost.

The API refuses requests without a token of at most a given age, and requests beyond a rate. It responds to some first
attempts with 500, with an HTML page and status 200, or with a body that is cut off. What it does depends on the request
and its attempt alone, so the smallest number of requests is known: one for each row with an id, and one more for each
URL whose first attempt fails.
"""

import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from support.results import table
from support.run import get, headgate, serving, started, stats, wait_for_requests

EXIT_FAILED_ROWS: Final = 3
MOST_EXTRA: Final = 0.02
"""The share of the smallest number of requests that may be sent beyond it."""
PRICE: Final = "price:decimal(20,2)=$.price"
_PRICE_TYPE: Final = pa.decimal128(20, 2)
_BURST_S: Final = 0.2
_FIRST: Final = ("api_failed_first", "api_html_first", "api_cut_first")
_PRINT_PAGE: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_PRICES: Final = 99_999


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The size of a job and of its API.

    Attributes:
        rows: The rows of the table, with duplicates, nulls and lines without an id.
        per_s: The requests per second that the API allows, and that the job makes.
        token_s: How long a token is valid.
        commit_s: How long results may wait for a commit.
        kills: After how many requests the job is killed.
    """

    rows: int
    per_s: int
    token_s: float
    commit_s: float
    kills: Sequence[int]


SMALL: Final = Scale(rows=600, per_s=150, token_s=1, commit_s=0.1, kills=(250,))
PROOF: Final = Scale(rows=20_000, per_s=300, token_s=20, commit_s=0.5, kills=(8_000,))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What a job has cost.

    Attributes:
        requests: The requests that the API has received.
        minimum: The smallest number with which all rows could be done.
        unauthorized: Requests with status 401.
        throttled: Requests with status 429.
        renewals: The tokens that the API has issued.
        seconds: How long the job took, with its restarts.
        right: Rows that are as they should be.
        wrong: What is not as it should be.
    """

    requests: int
    minimum: int
    unauthorized: int
    throttled: int
    renewals: int
    seconds: float
    right: int
    wrong: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The requests relative to the smallest number."""
        return self.requests / self.minimum


def price_of(product: str) -> Decimal:
    """Returns the price of a product, as the server computes it."""
    number = _FNV_OFFSET
    for byte in product.encode():
        number = (number ^ byte) * _FNV_PRIME % 2**64
    return Decimal(1 + number % _PRICES) / 100


def write_products(path: Path, rows: int) -> list[str | None]:
    """Writes the table, and returns the id of each row.

    Of a hundred rows, two have the id of an earlier row, one has a null and one has no id.
    """
    products: list[str | None] = []
    with path.open("w", encoding="utf-8") as written:
        for row in range(rows):
            product = {50: f"p{row // 2}", 70: f"p{row - 7}", 90: None, 91: None}.get(row % 100, f"p{row}")
            written.write(json.dumps({} if row % 100 == 91 else {"id": product}) + "\n")
            products.append(product)
    return products


@contextmanager
def paid_api(scale: Scale, log: Path) -> Iterator[str]:
    """Runs the API; yields its URL."""
    faults = ("--api-fail-first", "3%", "--api-html-first", "1%", "--api-cut-first", "1%")
    # A server that the machine keeps waiting takes several requests at once.
    rate = ("--api-rate", f"{scale.per_s}/s", "--api-burst", str(round(scale.per_s * _BURST_S)))
    with serving("--api-bearer-ttl", f"{scale.token_s}s", *rate, *faults, "--log", str(log)) as server:
        yield server


def credentials(server: str) -> tuple[str, str]:
    """Returns the flag with the command that prints a new token."""
    return "--token-command", shlex.join([sys.executable, "-c", _PRINT_PAGE, f"{server}/token"])


def prices(server: str, products: Path, out: Path, *flags: str) -> list[str | Path]:
    """Returns the command that fetches the price of each product, without its credentials."""
    columns = ("--keep", "id", "--drop", "body,headers", "--extract", PRICE, "--require", "price")
    return ["fetch", products, "-o", out, "--url", f"{server}/price/{{id}}", *columns, "-q", *flags]


def prove(scale: Scale, directory: Path) -> Bill:
    """Runs one command, kills it and runs it again, retries what can be retried, and checks every row."""
    products, out, log = directory / "products.ndjson", directory / "prices", directory / "log"
    ids = write_products(products, scale.rows)
    with paid_api(scale, log) as server:
        limits = ("--rate", f"{scale.per_s}/s", "--commit-interval", str(scale.commit_s))
        command = prices(server, products, out, *limits, *credentials(server))
        begun = time.monotonic()
        for requests in scale.kills:
            with started(*command):
                wait_for_requests(server, requests)
        done = headgate(*command)
        wrong = _unlike("exit code", EXIT_FAILED_ROWS, done.code)
        html = stats(server)["limits"].get("api_html_first", 0)
        wrong += _unlike("unexpected responses", html, _errors(out)["unexpected_response"])
        headgate("retry", out, "--only", "unexpected_response", *credentials(server), "-q")
        seconds = time.monotonic() - begun
        seen = stats(server)
    results = table(out)
    mistakes = _mistakes(results, ids)
    minimum = sum(product is not None for product in ids) + sum(seen["limits"].get(name, 0) for name in _FIRST)
    attempts = sum(pc.filter(results["attempts"], pc.is_valid(results["id"])).to_pylist())
    # A kill forgets the attempts since the last commit.
    if not minimum <= attempts <= seen["requests"]:
        wrong += [f"{attempts:,} attempts of rows with an id, though {minimum:,} to {seen['requests']:,} were made"]
    return Bill(
        requests=seen["requests"],
        minimum=minimum,
        unauthorized=seen["responses"].get("401", 0),
        throttled=seen["responses"].get("429", 0),
        renewals=seen["limits"].get("api_bearer_issued", 0),
        seconds=seconds,
        right=scale.rows - len(mistakes),
        wrong=wrong + mistakes[:5] + _foreign(log, ids),
    )


def _mistakes(results: Any, ids: Sequence[str | None]) -> list[str]:
    """Returns the rows that are not what they should be."""
    if results["row"].to_pylist() != list(range(len(ids))):
        return [f"{results.num_rows} rows, {len(set(results['row'].to_pylist()))} of them different"] * len(ids)
    if results.schema.field("price").type != _PRICE_TYPE:
        return [f"prices are {results.schema.field('price').type}"] * len(ids)
    names = ("id", "price", "error")
    found = zip(*(results[name].to_pylist() for name in names), strict=True)
    return [
        f"row {row}: {dict(zip(names, cells, strict=True))}"
        for row, (product, cells) in enumerate(zip(ids, found, strict=True))
        if cells != ((None, None, "invalid_request") if product is None else (product, price_of(product), None))
    ]


def _foreign(log: Path, ids: Sequence[str | None]) -> list[str]:
    """Returns requests for anything but the ids of the table."""
    asked = {line.split("\t")[3] for line in log.read_text().splitlines()}
    return [f"a request for {path}" for path in sorted(asked - {f"/price/{product}" for product in ids if product})]


def _errors(out: Path) -> Counter[str | None]:
    return Counter(table(out)["error"].to_pylist())


def _unlike(what: str, expected: object, found: object) -> list[str]:
    return [] if expected == found else [f"{what}: {found}, not {expected}"]


def new_token(server: str) -> str:
    """Returns a new token."""
    return get(f"{server}/token").strip()
