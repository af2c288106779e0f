"""What a finished job says to people."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from headgate import _format
from headgate._summary import Summary

_MILLION: Final = 1_000_000
_INDENT: Final = "  "
_NO_PLACE: Final = ("", "-")


def report(summary: Summary) -> str:
    """The summary as aligned lines, without a line end after the last."""
    blocks = [_headline(summary), *_aligned(_facts(summary)), summary.bound_by.text]
    blocks.extend(f"note: {note}" for note in summary.notes)
    if summary.output not in _NO_PLACE:
        look = f"headgate show {shlex.quote(summary.output)}"
        blocks.append(f"results are in {summary.output}: look at them with `{look}`")
    return "\n".join(_format.printable(line) for line in blocks)


def _headline(summary: Summary) -> str:
    how = "stopped early" if summary.interrupted or summary.failure is not None else "done"
    return f"{how}: {_format.plural(summary.rows, 'row')} in {_format.duration(summary.elapsed_s)}"


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "answered", f"{summary.answered:,}{_in_brackets(_by_class(summary.statuses))}"
    yield "failed", f"{summary.failed:,}"
    for kind, number in sorted(summary.errors.items(), key=lambda item: (-item[1], item[0])):
        example = summary.error_examples.get(kind)
        reason = "" if example is None else f"  row {example.row}: {example.url}: {example.message}"
        yield f"{_INDENT}{kind}", f"{number:,}{reason}"
    yield "requests/s", _format.count(summary.requests_per_s)
    if summary.answered:
        latency = summary.latency_us
        named = (("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("max", latency.max))
        yield "latency", ", ".join(f"{name} {_format.latency(value)}" for name, value in named)
    yield "received", _format.size(summary.bytes_received)
    yield "memory", f"{_format.size(summary.peak_rss_bytes)} at the most"
    yield "CPU", _cpu(summary)


def _cpu(summary: Summary) -> str:
    total = f"{summary.cpu_s:,.1f} s"
    if not summary.rows:
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
