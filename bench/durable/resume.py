"""Measures how long it takes to resume a job of which 100,000,000 rows are done.

Such a job does not have to run: a small one is stopped, and a commit is added to its log by which all but the
last rows are done. The result is the time from the start of the command to its first request, compared with the
same time of a new job.
"""

import argparse
import base64
import json
import signal
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness import processes, tables
from harness.findings import Finding
from harness.tables import Target
from support import commits
from support.killing import Watched, watching
from support.run import LONGEST_S, serving, started

_LEFT: Final = 100
_GROUP_ROWS: Final = 1_000_000
_LINE_BYTES: Final = 60
_NO_ROWS: Final = base64.b64encode(bytes(8)).decode()
"""An empty Roaring bitmap in the portable 64-bit format: no maps."""
_RESOLUTION_S: Final = 0.001
_LONGEST_OPEN_S: Final = 1.0
_LEAST_TEXT_ROWS_PER_S: Final = 5_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """The figures of one form of input.

    Attributes:
        form: `range`, `parquet` or `text`.
        rows: The rows of the input.
        new_s: Seconds to the first request of a new job.
        resumed_s: Seconds to the first request of the resumed job.
        peak_rss_bytes: The peak memory of the resumed run until then.
    """

    form: str
    rows: int
    new_s: float
    resumed_s: float
    peak_rss_bytes: int


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures each form of input, as the median of some rounds."""
    forms: dict[str, tuple[int, Callable[[str, int, Path], str]]] = {
        "range": (arguments.done_rows, lambda server, rows, _: f"{server}/[1-{rows}]"),
        "parquet": (arguments.done_rows, _parquet),
        "text": (arguments.text_rows, _text),
    }
    opened: list[Opened] = []
    wrong: list[str] = []
    for form, (rows, make) in forms.items():
        with serving() as server, tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
            source = make(server, rows, Path(scratch))
            with watching(server) as watched:
                for round_ in range(1, arguments.rounds + 1):
                    found, mistake = _round(form, rows, source, Path(scratch, f"results-{round_}"), watched)
                    opened.append(found)
                    wrong += [f"{form}, round {round_}: {mistake}"] if mistake else []
                    print(f"resume: {form}, round {round_}: {found.resumed_s:.3f} s {mistake}", file=sys.stderr)
    return _finding(opened, wrong)


def _round(form: str, rows: int, source: str, out: Path, server: Watched) -> tuple[Opened, str]:
    command: list[str | Path] = ["fetch", source, "-o", out, "-c", "8", "-q"]
    before = server.settled_requests()
    with started(*command, "--commit-interval", "0.05") as process:
        new_s = _first_request(server, before)
        commits.wait_for(1, out, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_S)
    _pretend(out, done=rows - _LEFT)
    before = server.settled_requests()
    with started(*command) as process:
        resumed_s = _first_request(server, before)
        peak_rss_bytes = processes.peak_rss_bytes(process.pid)
        _, stderr = process.communicate(timeout=LONGEST_S)
    requests = server.settled_requests() - before
    mistake = ""
    if (process.returncode, requests, commits.done(out)) != (0, _LEFT, rows):
        mistake = f"exit code {process.returncode}, {requests} requests, {commits.done(out):,} rows done: {stderr}"
    return Opened(form=form, rows=rows, new_s=new_s, resumed_s=resumed_s, peak_rss_bytes=peak_rss_bytes), mistake


def _first_request(server: Watched, before: int) -> float:
    """Returns the seconds until the server has seen a request; called as the command starts."""
    begun = time.perf_counter()
    while server.stats()["requests"] == before:
        if time.perf_counter() > begun + LONGEST_S:
            raise TimeoutError(f"no request within {LONGEST_S} s")
    return time.perf_counter() - begun


def _pretend(directory: Path, *, done: int) -> None:
    """Adds a commit by which the first `done` rows of the input are done, in the existing parts."""
    newest = commits.newest(directory)
    if newest is None:
        raise FileNotFoundError(f"{directory} has no commit, though its job was stopped after the first")
    record = newest.record | {"adds": [], "removes": [], "done": done, "watermark": done, "above": _NO_ROWS}
    record["number"] += 1
    version = json.loads(newest.path.read_text())["format_version"]
    text = json.dumps(record)
    crc32 = zlib.crc32(version.to_bytes(4, "little") + text.encode())
    path = newest.path.with_name(f"{record['number']:020}.json")
    path.write_text(f'{{"format_version":{version},"crc32":{crc32},"record":{text}}}\n')


def _parquet(server: str, rows: int, scratch: Path) -> str:
    """Writes identical row groups of a million rows, of which only the footer is read."""
    path = scratch / "urls.parquet"
    table = pa.table({"url": [f"{server}/{row}" for row in range(min(rows, _GROUP_ROWS))]})
    with pq.ParquetWriter(
        path, table.schema, use_dictionary=False, column_encoding={"url": "DELTA_BYTE_ARRAY"}
    ) as writer:
        for first in range(0, rows, _GROUP_ROWS):
            writer.write_table(table.slice(0, min(_GROUP_ROWS, rows - first)), row_group_size=_GROUP_ROWS)
    return str(path)


def _text(server: str, rows: int, scratch: Path) -> str:
    """Writes lines of 60 bytes."""
    path = scratch / "urls.txt"
    width = _LINE_BYTES - len(server) - 2
    with path.open("w") as lines:
        for block in _blocks(rows):
            lines.write("".join(f"{server}/{row:0{width}}\n" for row in block))
    return str(path)


def _blocks(rows: int) -> Iterator[range]:
    return (range(first, min(first + _GROUP_ROWS, rows)) for first in range(0, rows, _GROUP_ROWS))


def _finding(opened: Sequence[Opened], wrong: list[str]) -> Finding:
    forms = {form: [one for one in opened if one.form == form] for form in dict.fromkeys(one.form for one in opened)}
    head = ["input", "rows", "s to the first request, median", "of a new job", "added", "rows skipped/s", "peak MB"]
    table = tables.table(head, [_row(form, own) for form, own in forms.items()])
    return Finding(
        title="Going on with a large job",
        targets=[_target(form, own) for form, own in forms.items()],
        text=f"{table}\n\nText has lines of {_LINE_BYTES} bytes, and comes from memory: it was written shortly before.",
        raw=[_raw(one) for one in opened],
        wrong=wrong,
    )


def _added_s(own: Sequence[Opened]) -> float:
    """Returns how much longer resuming takes than starting, within the resolution."""
    resumed_s = statistics.median(one.resumed_s for one in own)
    new_s = statistics.median(one.new_s for one in own)
    return max(resumed_s - new_s, _RESOLUTION_S)


def _target(form: str, own: Sequence[Opened]) -> Target:
    added_s = _added_s(own)
    if form == "text":
        per_s = own[0].rows / added_s
        return tables.at_least("million rows of text skipped a second", per_s / 1e6, _LEAST_TEXT_ROWS_PER_S / 1e6)
    promise = f"{own[0].rows:,} rows, {form}: at most {_LONGEST_OPEN_S:g} s"
    return Target(promise, added_s, f"{added_s:.3f} s", added_s <= _LONGEST_OPEN_S)


def _row(form: str, own: Sequence[Opened]) -> list[str]:
    added_s = _added_s(own)
    return [
        form,
        f"{own[0].rows:,}",
        tables.number(tables.median(one.resumed_s for one in own), ".3f"),
        tables.number(tables.median(one.new_s for one in own), ".3f"),
        f"{added_s:.3f}",
        f"{own[0].rows / added_s:,.0f}" if form == "text" else tables.ABSENT,
        f"{max(tables.mb(one.peak_rss_bytes) for one in own):.1f}",
    ]


def _raw(one: Opened) -> dict[str, Any]:
    return {"form": one.form, "rows": one.rows, "new_s": one.new_s, "resumed_s": one.resumed_s} | {
        "peak_rss_bytes": one.peak_rss_bytes
    }
