"""What a finished job says to people."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from headgate import _format
from headgate._summary import Summary

_MILLION: Final = 1_000_000
_INDENT: Final = "  "
_NO_PLACE: Final = ("", "-")
_ROWS_FOR_A_RATE: Final = 10_000
"""With fewer, the CPU seconds of starting are most of it."""

_LONGEST_URL: Final = 80


def report(summary: Summary) -> str:
    """The summary as aligned lines, without a line end after the last."""
    blocks = [_headline(summary), *_aligned(_facts(summary))]
    if summary.rows or _stopped_early(summary):
        blocks.append(summary.bound_by.text)
    blocks.extend(_in_all(summary))
    blocks.extend(f"note: {note}" for note in summary.notes)
    blocks.extend(_place(summary))
    blocks.extend(_way_on(summary))
    return "\n".join(_format.printable(line) for line in blocks)


def _stopped_early(summary: Summary) -> bool:
    return summary.interrupted or summary.failure is not None


def _headline(summary: Summary) -> str:
    early = _stopped_early(summary)
    rows = _format.plural(summary.rows, "row")
    # Of a run that went on from another, only the whole job is so many of all rows: `_in_all` says that.
    if early and summary.rows_known is not None and not _went_on(summary):
        rows = f"{summary.rows:,} of {_format.plural(summary.rows_known, 'row')}"
    return f"{'stopped early' if early else 'done'}: {rows} in {_format.duration(summary.elapsed_s)}"


def _went_on(summary: Summary) -> bool:
    return summary.job is not None and summary.job.rows_before > 0


def _in_all(summary: Summary) -> Iterator[str]:
    """The whole job, where this run was not all of it."""
    if summary.job is None or not _went_on(summary):
        return
    done = _format.plural(summary.job.done, "row")
    if summary.job.rows is not None:
        done = f"{summary.job.done:,} of {_format.plural(summary.job.rows, 'row')}"
    yield f"in all {done} done, {summary.job.failed:,} failed"


def _way_on(summary: Summary) -> Iterator[str]:
    """How to have the rest done, where the same command does it."""
    if summary.job is None or summary.job.finished or not summary.job.resumable:
        return
    # An input that was mended is another input: that job cannot go on.
    if summary.failure is not None and summary.failure.kind == "output":
        yield "when the cause of the failure is gone, run the same command again to go on"
    elif summary.failure is None and summary.interrupted:
        yield "run the same command again to go on"


def _place(summary: Summary) -> Iterator[str]:
    """Where the results are, and which are not there."""
    if summary.output in _NO_PLACE:
        return
    if summary.failure is not None and summary.failure.kind == "output":
        if summary.job is not None:
            yield f"what was committed before the failure is in {summary.output}"
        else:
            yield (
                f"what was written before the failure is in {summary.output}; "
                "answered rows of the unfinished part are not in it"
            )
    elif not (summary.rows or _went_on(summary)):
        yield "no row has ended: there are no results" if _stopped_early(summary) else "there were no rows to ask for"
    else:
        look = f"headgate show {shlex.quote(summary.output)}"
        yield f"results are in {summary.output}: look at them with `{look}`"


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "answered", f"{summary.answered:,}{_in_brackets(_by_class(summary.statuses))}"
    yield "failed", f"{summary.failed:,}"
    for kind, number in sorted(summary.errors.items(), key=lambda item: (-item[1], item[0])):
        example = summary.error_examples.get(kind)
        reason = "" if example is None else f"  row {example.row}: {_short(example.url)}: {example.message}"
        yield f"{_INDENT}{kind}", f"{number:,}{reason}"
    if summary.abandoned:
        yield "given up", f"{summary.abandoned:,}  in flight at the end; no rows of the result, they can be asked again"
    yield "requests/s", _format.count(summary.requests_per_s)
    latency = summary.latency_us
    if latency.max:  # of attempts, answered or not; a row that is no request has none
        named = (("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("max", latency.max))
        yield "latency", ", ".join(f"{name} {_format.latency(value)}" for name, value in named)
    yield "received", _format.size(summary.bytes_received)
    yield "memory", f"{_format.size(summary.peak_rss_bytes)} at the most"
    yield "CPU", _cpu(summary)


def _short(url: str) -> str:
    if not url:
        return "(no URL)"
    return url if len(url) <= _LONGEST_URL else f"{url[: _LONGEST_URL - 1]}…"


def _cpu(summary: Summary) -> str:
    total = f"{summary.cpu_s:,.1f} s"
    if summary.rows < _ROWS_FOR_A_RATE:
        return total
    return f"{total}, {summary.cpu_s / summary.rows * _MILLION:,.1f} s for each million requests"


def _by_class(statuses: dict[int, int]) -> Iterator[str]:
    classes: dict[int, int] = {}
    for status, number in statuses.items():
        classes[status // 100] = classes.get(status // 100, 0) + number
    for first_digit, number in sorted(classes.items()):
        yield f"{first_digit}xx: {number:,}"


def _in_brackets(parts: Iterable[str]) -> str:
    text = ", ".join(parts)
    return f"  ({text})" if text else ""


def _aligned(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = list(facts)
    width = max(len(name) for name, _ in rows)
    return (f"{_INDENT}{name:<{width}}  {value}" for name, value in rows)
