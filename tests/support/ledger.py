"""Compares a directory of results with the expected outcome of every row.

It reads the parts as any reader would and trusts no record of the job itself, so that a job can't be wrong in both
and go unnoticed.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from support import commits

FAIL_ON: Final = frozenset({408, 425, 429, *range(500, 600)})
"""Statuses that fail a row, unless `--fail-on` is given."""

OWN_DIRECTORY: Final = "_headgate"
DELTA_DIRECTORY: Final = "_delta_log"
PLACEHOLDER: Final = "part-00000000.parquet"
"""The file that is there before the first commit."""
_PART: Final = re.compile(r"(part|failed)-\d{8}\.(parquet|ndjson)")
_COLUMNS: Final = ["row", "url", "status", "error", "body"]
_MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a row."""

    url: str
    status: int | None
    error: str | None
    body: bytes | None

    @property
    def series(self) -> str:
        """Returns the series of parts that such a row belongs to."""
        return "failed" if self.error is not None or self.status in FAIL_ON else "part"


def parts(directory: Path) -> list[Path]:
    """Returns the parts of both series and formats."""
    return sorted(path for path in directory.iterdir() if _PART.fullmatch(path.name))


def ordinals(part: Path) -> list[int]:
    """Returns the indexes of the rows of a part."""
    if part.suffix == ".ndjson":
        return [json.loads(line)["row"] for line in part.read_bytes().splitlines()]
    rows: list[int] = pq.read_table(part, columns=["row"])["row"].to_pylist()
    return rows


def twice(directory: Path) -> list[int]:
    """Returns the rows that are in the results more than once, apart from files that the newest commit has replaced.

    A kill may leave these files, which the next run removes.
    """
    newest = commits.newest(directory)
    replaced = () if newest is None else newest.record["removes"]
    current = [part for part in parts(directory) if part.name not in replaced]
    counted = Counter(row for part in current for row in ordinals(part))
    return sorted(row for row, times in counted.items() if times > 1)


def mistakes(directory: Path, expected: Sequence[Ending]) -> list[str]:
    """Returns all mistakes in the results of a finished job whose row N must have the outcome `expected[N]`.

    Each row must be there once, in the right series, with the URL, status, error and body that were expected; every
    file must be readable, and nothing else may be left in the directory.
    """
    wrong: list[str] = []
    seen: Counter[int] = Counter()
    for part in parts(directory):
        try:
            endings = list(_endings(part))
        except Exception as error:  # noqa: BLE001 - a part is bad, whatever its reader raises
            wrong.append(f"{part.name} can't be read: {error}")
            continue
        seen.update(row for row, _ in endings)
        wrong += [mistake for row, ending in endings for mistake in _mistakes_of(part, row, ending, expected)]
    wrong += [f"row {row} stands there {times} times" for row, times in sorted(seen.items()) if times > 1]
    wrong += [f"row {row} is missing" for row in range(len(expected)) if row not in seen]
    wrong += [f"{path} is left over" for path in leftovers(directory)]
    return wrong if len(wrong) <= _MOST_SHOWN else [*wrong[:_MOST_SHOWN], f"and {len(wrong) - _MOST_SHOWN} more"]


def leftovers(directory: Path) -> list[Path]:
    """Returns files of a job that is not running which are neither parts nor records of it."""
    known = (OWN_DIRECTORY, DELTA_DIRECTORY)
    unknown = [
        path
        for path in directory.iterdir()
        if path.name == PLACEHOLDER or (not _PART.fullmatch(path.name) and path.name not in known)
    ]
    unfinished = directory / OWN_DIRECTORY / "tmp"
    found = unknown + (list(unfinished.iterdir()) if unfinished.is_dir() else [])
    return sorted(path.relative_to(directory) for path in found)


def _mistakes_of(part: Path, row: int, ending: Ending, expected: Sequence[Ending]) -> Iterator[str]:
    where = f"{part.name}: row {row}"
    if not 0 <= row < len(expected):
        yield f"{where} is not expected"
        return
    right = expected[row]
    for name in ("url", "status", "error", "body"):
        found, wanted = getattr(ending, name), getattr(right, name)
        if found != wanted:
            yield f"{where}: {name} is {_short(found)}, not {_short(wanted)}"
    if not part.name.startswith(f"{right.series}-"):
        yield f"{where} belongs into {right.series}-*"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def _endings(part: Path) -> Iterator[tuple[int, Ending]]:
    if part.suffix == ".ndjson":
        for line in part.read_bytes().splitlines():
            found = json.loads(line)
            yield found["row"], Ending(found["url"], found["status"], found["error"], _body(found))
        return
    columns = pq.read_table(part, columns=_COLUMNS).to_pydict()
    for row, *ending in zip(*(columns[name] for name in _COLUMNS), strict=True):
        yield row, Ending(*ending)


def _body(found: dict[str, str | None]) -> bytes | None:
    text, encoded = found.get("body"), found.get("body_base64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return None if text is None else text.encode()
