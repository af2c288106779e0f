"""The report on a job as one HTML page, which needs nothing else: plots, failures, hosts and commands.

The page has its content as JSON, and a script that draws it. Its Content-Security-Policy allows the scripts and styles
of this package by their hashes and nothing else, so that no text of a server or an input is executed or loads anything.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from typing import Any, Final

from headgate import _format
from headgate._facts import Fact, by_frequency
from headgate._native import ERROR_KINDS
from headgate.jobs._series import Point, coarsened, columns, joined, merged, percentile_us
from headgate.jobs._status import JobStatus, facts, headline, run_cells

_DIRECTORY: Final = Path(__file__).with_name("page")
_TABLE_POINTS: Final = 24
_EMBEDDED_POINTS: Final = 400
"""The bound of points in a notebook, which stores them."""

_MAX_CAUSES: Final = 50
_MAX_TEXT: Final = 300
_MILLISECONDS: Final = 1000
_INDENT: Final = "  "
_STATUS: Final = "status:"
_SHOWN: Final = 4
_ERROR: Final = "error"
_NO_RESPONSE: Final = "no response"
_PERCENTILES: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What is known of a job.

    Attributes:
        status: Its status.
        requested: The options that differ from their defaults, spelled, each with its value.
        withheld: The flags of options whose values are not stored, each with what a user can fill in.
        points: Its series.
        results: Its results in figures, as JSON of the engine; `None`: they were not read.
    """

    status: JobStatus
    requested: Sequence[Fact]
    withheld: Sequence[Fact]
    points: Sequence[Point]
    results: Mapping[str, Any] | None


def content(report: Report) -> dict[str, Any]:
    """Returns what a page shows, as data for JSON."""
    status, points, results = report.status, joined(report.points), report.results
    return {
        "title": _text(f"headgate: {status.output}"),
        "headline": _text(headline(status)),
        "made_at": _format.moment(datetime.now(UTC)),
        "is_running": status.running,
        "is_whole": True,
        "commands": list(_commands(report)),
        "came": _texts(_came(status, points, results)),
        "failures": _failures(status, results),
        "hosts": _hosts(status, results),
        "requested": _texts(_requested(report)),
        "runs": [[_text(cell) for cell in cells] for cells in run_cells(status)],
        **_plots(points, status),
        "points": columns(points),
    }


def embedded(status: JobStatus, points: Sequence[Point]) -> str:
    """Returns the plots of a job as an HTML element for a notebook, or nothing if there are none."""
    if not points:
        return ""
    few = coarsened(joined(points), _EMBEDDED_POINTS)
    html = page({"title": "headgate", "is_whole": False, **_plots(few, status), "points": columns(few)})
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{escape(html)}" title="plots of the job" '
        'style="width: 100%; height: 880px; border: 0"></iframe>'
    )


def page(shown: Mapping[str, Any], *, is_live: bool = False) -> str:
    """Returns the page that shows this content; `is_live`: it requests newer content from its server."""
    styles, scripts = _assets("uPlot.min.css", "page.css"), _assets("uPlot.iife.min.js", "page.js")
    data = json.dumps({**shown, "is_live": is_live}, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(is_live=is_live)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n',
            f"<title>{escape(shown['title'])}</title>\n",
            f"<!-- uPlot, which is in this page:\n{_assets('uPlot.LICENSE')[0]}-->\n",
            *(f"<style>{style}</style>\n" for style in styles),
            '</head>\n<body>\n<main id="report"></main>\n',
            "<noscript><p>This page needs JavaScript. <code>headgate status</code> shows text.</p></noscript>\n",
            f'<script type="application/json" id="content">{data}</script>\n',
            *(f"<script>{script}</script>\n" for script in scripts),
            "</body>\n</html>\n",
        ]
    )


@cache
def policy(*, is_live: bool) -> str:
    """Returns the Content-Security-Policy of a page."""
    connect = "'self'" if is_live else "'none'"
    styles, scripts = _hashes("uPlot.min.css", "page.css"), _hashes("uPlot.iife.min.js", "page.js")
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _assets(*names: str) -> tuple[str, ...]:
    return tuple((_DIRECTORY / name).read_text(encoding="utf-8") for name in names)


def _hashes(*names: str) -> str:
    hashes = (b64encode(hashlib.sha256(asset.encode()).digest()).decode() for asset in _assets(*names))
    return " ".join(f"'sha256-{each}'" for each in hashes)


def _text(text: str) -> str:
    """Returns a text that may be hostile, without control characters, at a bounded length."""
    return _format.printable(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…")


def _texts(pairs: Iterable[Fact]) -> list[Fact]:
    return [(_text(name), _text(value)) for name, value in pairs]


def _requested(report: Report) -> Iterator[Fact]:
    status = report.status
    yield "input", status.input
    if status.rows is not None:
        yield "rows", _format.count(status.rows)
    yield "results", f"{status.output} ({status.format})"
    yield from report.requested


def _came(status: JobStatus, points: Sequence[Point], results: Mapping[str, Any] | None) -> Iterator[Fact]:
    for name, value in facts(status):
        # Each has a section of its own.
        if name != "input" and not name.startswith(_INDENT):
            yield name, value
    if results is not None and results["statuses"]:
        counts = by_frequency({str(code): rows for code, rows in results["statuses"].items()})
        shown = ", ".join(f"{code}: {_format.count(rows)}" for code, rows in counts[:_MAX_CAUSES])
        yield "statuses", shown + _of_part(results, " (of {})")
    if points:
        whole = merged(points)
        seconds = whole["ms"] / _MILLISECONDS
        rows = whole["succeeded"] + whole["failed"]
        yield "time", f"{_format.duration(seconds)} in all runs"
        yield "rows/s", f"{_format.count(rows / max(seconds, 0.001))} on average"
        yield "received", _format.size(whole["received_bytes"])
        yield "retried", _format.plural(whole["retried"], "attempt")
        if whole["stalled_ms"] >= _MILLISECONDS:
            yield "stalled", f"{_format.seconds(whole['stalled_ms'] / _MILLISECONDS)}: the process did not run"


def _failures(status: JobStatus, results: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the causes of failed rows, the most frequent first, each with examples."""
    causes = by_frequency(status.errors)
    found = {} if results is None else results["failures"]
    about = dict(ERROR_KINDS)
    return {
        "causes": [
            {
                "cause": _text(cause),
                "rows": _format.plural(rows, "row"),
                "about": _about_status(cause) or about.get(cause, ""),
                "examples": [_text(_example(row)) for row in found.get(cause, {}).get("examples", ())],
            }
            for cause, rows in causes[:_MAX_CAUSES]
        ],
        "more": f"and {_format.plural(len(causes) - _MAX_CAUSES, 'cause')} more" if len(causes) > _MAX_CAUSES else "",
    }


def _about_status(cause: str) -> str:
    code = cause.removeprefix(_STATUS)
    if code == cause or not code.isdigit():
        return ""
    phrases = {int(status): status.phrase for status in HTTPStatus}
    return f"the server responded with {code} {phrases.get(int(code), '')}".rstrip()


def _example(row: Mapping[str, Any]) -> str:
    url = row["url"] or "-"
    why = "" if row["message"] is None else f": {row['message']}"
    detail = "" if row["detail"] is None else f" ({row['detail']})"
    number = "" if row["row"] is None else f"row {row['row']}: "
    # The beginning of a long URL says enough, and leaves room for the rest.
    return f"{number}{url if len(url) <= _MAX_TEXT // 2 else url[: _MAX_TEXT // 2] + '…'}{why}{detail}"


def _hosts(status: JobStatus, results: Mapping[str, Any] | None) -> dict[str, Any]:
    if results is None or not results["rows"]:
        return {"note": "There are no rows." if status.finished else "No results are committed yet.", "rows": []}
    hosts = results["hosts"]
    if not hosts:
        return {"note": "The results don't have the URLs.", "rows": []}
    more = "more than " if results["has_more_hosts"] else ""
    note = f"The rows of {more}{_format.plural(results['host_count'], 'host')}"
    if len(hosts) < results["host_count"]:
        note = f"{note}, of which this page has the {_format.count(len(hosts))} with the most failures and the slowest"
    note += _of_part(results, ". They are of {}")
    names = ("rows", "failed", "retries", "mean_us", "max_us")
    return {"note": f"{note}.", "rows": [[_text(host["host"]), *(host[name] for name in names)] for host in hosts]}


def _of_part(results: Mapping[str, Any], text: str) -> str:
    """Returns a text that names the part of the results that was read, or nothing if that is all of them."""
    if results["rows_read"] >= results["rows"]:
        return ""
    read = _format.part(results["rows_read"], results["rows"], "committed row")
    return text.format(f"{read}, failed rows first; the others were not read")


def _commands(report: Report) -> Iterator[Fact]:
    status, output = report.status, quote(report.status.output)
    if status.running:
        yield "See what it does now:", f"headgate status {output}"
        if status.paused:
            yield "Continue it:", f"headgate unpause {output}"
        else:
            yield "Pause it, until headgate unpause:", f"headgate pause {output}"
            yield "Change an option while it runs:", f"headgate set {output} --concurrency 100"
    elif not status.finished:
        if status.paused:
            yield "It is paused. Unpause it first:", f"headgate unpause {output}"
        if status.resumable:
            yield "Resume it with the command that started it:", f"headgate fetch ... -o {output}"
        else:
            yield "It can't be resumed: its input can't be read again. Start over:", f"headgate fetch ... -o {output}"
    if status.failed:
        yield "Look at rows that failed:", f"headgate show {output} --failed"
        if not status.running:
            values = "".join(f" {flag} {quote(value)}" for flag, value in report.withheld)
            stored = ", with the values that aren't stored" if values else ""
            yield f"Retry rows that failed{stored}:", f"headgate retry {output}{values}"
    if status.done:
        yield "Look at results:", f"headgate show {output}"


def _plots(points: Sequence[Point], status: JobStatus) -> dict[str, Any]:
    """Returns what belongs to the plots: their text alternatives, their figures as a table, and the starts of runs."""
    coarse = coarsened(points, _TABLE_POINTS)
    return {
        "coarse": columns(coarse) if coarse else columns([]),
        "about": dict(_about(points)) if points else {},
        "starts": [run.started_at.timestamp() for run in status.runs],
    }


def _about(points: Sequence[Point]) -> Iterator[Fact]:
    """Yields a sentence about each plot."""
    whole = merged(points)
    seconds, rows = max(whole["ms"], 1) / _MILLISECONDS, whole["succeeded"] + whole["failed"]
    best = max(points, key=lambda point: (point["succeeded"] + point["failed"]) / max(point["ms"], 1))
    rate = (best["succeeded"] + best["failed"]) * _MILLISECONDS / max(best["ms"], 1)
    when = _format.moment(datetime.fromtimestamp(best["at_ms"] / _MILLISECONDS, UTC))
    mean = f"{_format.count(round(rows / seconds, 1))} on average"
    yield "rows", f"{mean}, at most {_format.count(round(rate, 1))} at {when}."
    percentiles = [(name, percentile_us(whole["latencies"], fraction)) for name, fraction in _PERCENTILES]
    shown = ", ".join(f"{name} {_format.latency(round(us))}" for name, us in percentiles if us is not None)
    yield "latency", f"{shown}, of the last attempt of each row." if shown else "No attempt has ended."
    outcomes = ", ".join(
        f"{_NO_RESPONSE if name == _ERROR else name}: {_format.count(number)}"
        for name, number in by_frequency(whole["outcomes"])
    )
    yield (
        "outcomes",
        f"{outcomes}. Rows that were retried or fetched once more count each time."
        if outcomes
        else "No row has ended.",
    )
    time = max(sum(whole["bottlenecks"].values()), 1)
    kinds = ", ".join(
        f"{_format.share(ms / time)} {kind.replace('_', ' ')}"
        for kind, ms in by_frequency(whole["bottlenecks"])[:_SHOWN]
    )
    yield "bottleneck", f"Of the time: {kinds}." if kinds else "Nothing was measured."
    in_flight = _format.count(round(whole["in_flight"], 1))
    yield "in_flight", f"{in_flight} on average; the limit was {_format.count(round(whole['concurrency']))}."
    yield (
        "received",
        f"{_format.size(whole['received_bytes'])} in all, {_format.size(whole['received_bytes'] / seconds)}/s.",
    )
