"""The report of a finished job for users."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from headgate import _format
from headgate._facts import Fact, aligned, by_frequency, by_number, rows_by_outcome
from headgate._message import Mention, Spell, as_keyword
from headgate._summary import MIN_STALL_S, ErrorExample, JobFigures, Summary, budget_facts
from headgate.jobs._option_entry import STANDARD_STREAM

_MILLION: Final = 1_000_000
_NO_DIRECTORY: Final = ("", STANDARD_STREAM)
_FRESH: Final = Mention("if_exists", value="overwrite")
_DIRECTORY: Final = Mention("output", "DIRECTORY")
_ROWS_FOR_A_RATE: Final = 10_000
"""With fewer rows, most of the CPU time is that of the start."""

_MAX_URL: Final = 80
_MIN_REPORTED: Final = 0.01
"""Shorter throttling is not reported: as a fraction of the job's time, and in seconds."""

_THROTTLED_BY: Final = {
    "rate": "rate limit",
    "cost": "cost limit",
    "budget": "budgets",
    "host_rate": "rate limit per host",
    "host_concurrency": "concurrency limit per host",
    "pause": "pauses that hosts requested",
    "circuit_breaker": "circuit breakers of hosts",
    "network": "network outages",
    "backoff": "retry backoff",
    "retry_budget": "retry budget",
    "head_of_line": "head-of-line blocking by throttled hosts",
    "paused": "pause of the job",
    "credentials": "credentials that were renewed",
}

_NO_REQUEST: Final = "invalid_request"

_MAX_ROWS: Final = Mention("max_rows")
_UNFINISHED: Final = "the job itself is not finished: run its `headgate fetch` again to resume it"
_MAX_CAUSES: Final = 3
"""The bound of causes in the line about failed rows."""


def greeting(summary: Summary) -> str | None:
    """Returns the message at the start of a run: how much of its job is done, or that it can't be resumed."""
    if summary.job is None:
        return None
    if not summary.job.resumable:
        return "this input can't be read again: if the job is stopped, it can't be resumed"
    if not _was_resumed(summary):
        return None
    # If all rows are done, the final report has that.
    if finished_already(summary) or summary.job.done == summary.job.rows:
        return None
    return f"resuming: {_done(summary.job)} done"


def finished_already(summary: Summary) -> bool:
    """Returns whether the job was finished before this run, which had nothing to do."""
    nothing_happened = summary.rows == 0 and not _stopped_early(summary)
    return summary.job is not None and _was_resumed(summary) and summary.job.finished and nothing_happened


def report(summary: Summary, spell: Spell = as_keyword, *, retry_flags: str = "") -> str:
    """Returns the summary as aligned lines, without a final line end.

    Args:
        summary: The summary.
        spell: Spells options.
        retry_flags: The flags that a retry of the job needs.
    """
    if summary.reader_gone:
        return reader_gone(summary)
    if summary.job is not None and finished_already(summary):
        finished = _finished(summary.job, spell, _retry(summary, retry_flags))
        return "\n".join(map(_format.printable, (finished, *_notes(summary), *_location(summary))))
    return _lines(summary, _headline(summary), spell, of_a_retry=False, retry=_retry(summary, retry_flags))


def quiet_report(
    summary: Summary, spell: Spell = as_keyword, *, of_a_retry: bool = False, retry_flags: str = ""
) -> str | None:
    """Returns the report as one line; `None`: every row succeeded, or the reader is gone.

    Args:
        summary: The summary.
        spell: Spells options.
        of_a_retry: Whether the run retried rows.
        retry_flags: The flags that a retry of the job needs.
    """
    job = summary.job
    figures = summary if job is None else job
    # Otherwise an error follows, which says why.
    if summary.interrupted and summary.failure is None and summary.stopped_by is None:
        if summary.reader_gone:
            return None
        done = _format.plural(summary.rows, "row") if job is None else _done(job)
        failed = f", {_format.count(figures.failed)} failed" if figures.failed else ""
        steps = _next_step(summary, spell, _retry(summary, retry_flags), of_a_retry=of_a_retry)
        return _format.printable("; ".join([f"stopped early: {done} done{failed}", *steps]))
    if not figures.failed:
        return None
    causes = [f"{kind} {_format.count(number)}" for kind, number in by_frequency(figures.errors)]
    named = ", ".join([*causes[:_MAX_CAUSES], *(["..."] if len(causes) > _MAX_CAUSES else [])])
    rows = _format.part(figures.failed, summary.rows if job is None else job.done, "row")
    can_retry = job is not None and _can_retry(job) and job.resumable
    advice = f": {_retry(summary, retry_flags)}" if can_retry else ""
    return _format.printable(f"{rows} failed ({named}){advice}")


def reader_gone(summary: Summary) -> str:
    """Returns the message of a run that stopped because the reader of standard output is gone."""
    rows = _format.plural(summary.rows, "row")
    return f"stopped after {rows}: the reader of standard output has closed it"


def retry_report(
    summary: Summary, spell: Spell = as_keyword, *, only: Sequence[str] | None = None, retry_flags: str = ""
) -> str:
    """Returns the report of a retry.

    Args:
        summary: The summary.
        spell: Spells options.
        only: The option that selected its rows.
        retry_flags: The flags that another retry needs.
    """
    job = summary.job
    if summary.rows or _stopped_early(summary) or job is None:
        headline, retry = _headline(summary, again=" retried"), _retry(summary, retry_flags)
        return _lines(summary, headline, spell, of_a_retry=True, retry=retry)
    if not job.failed:
        chosen = f"matches {spell(Mention('only', ','.join(only)))}" if only else "of the job has failed"
        nothing = f"nothing to retry: no row {chosen}"
        unfinished = () if job.finished else (_UNFINISHED,)
        return "\n".join(map(_format.printable, (nothing, *unfinished, *_notes(summary))))
    failed = _format.plural(job.failed, "failed row")
    kinds = ", ".join(f"{kind} {_format.count(number)}" for kind, number in by_frequency(job.errors))
    nothing = f"nothing to retry among the {failed} of the job ({kinds})"
    return "\n".join(map(_format.printable, (nothing, *_notes(summary))))


def _retry(summary: Summary, flags: str) -> str:
    """Returns the command that retries failed rows."""
    return " ".join(filter(None, ["headgate retry", shlex.quote(summary.output), flags]))


def _lines(summary: Summary, headline: str, spell: Spell, *, of_a_retry: bool, retry: str) -> str:
    blocks = [headline]
    if not _did_nothing(summary):
        blocks.extend(aligned(_facts(summary, spell)))
        if summary.rows or _stopped_early(summary):
            blocks.append(summary.bottleneck.text)
    blocks.extend(_totals(summary, of_a_retry=of_a_retry))
    blocks.extend(_notes(summary))
    blocks.extend(_location(summary))
    blocks.extend(_trial(summary, spell, of_a_retry=of_a_retry))
    blocks.extend(_next_step(summary, spell, retry, of_a_retry=of_a_retry))
    return "\n".join(_format.printable(line) for line in blocks)


def _notes(summary: Summary) -> Iterator[str]:
    return (f"note: {note}" for note in summary.notes)


def _trial(summary: Summary, spell: Spell, *, of_a_retry: bool) -> Iterator[str]:
    """Yields how a trial that has ended continues."""
    rows = None if summary.job is None else summary.job.max_rows
    if rows is not None and not of_a_retry and not _stopped_early(summary):
        of = f"this was a trial of {_format.plural(rows, 'row')}"
        yield f"{of}: to continue it, run the same command with a larger {spell(_MAX_ROWS)}, or without"


def _finished(job: JobFigures, spell: Spell, retry: str) -> str:
    rows, over = _format.plural(job.done, "row"), f"start over with {spell(_FRESH)}"
    if job.max_rows is not None:
        over = f"continue with a larger {spell(_MAX_ROWS)}, or without, or {over}"
    if not job.failed:
        return f"finished already: {rows} done: {over}"
    if not _can_retry(job):
        return f"finished already: {rows} done, {_format.count(job.failed)} failed: {over}"
    advice = f"retry those with `{retry}`, or {over}"
    return f"finished already: {rows} done, {_format.count(job.failed)} failed: {advice}"


def _can_retry(job: JobFigures) -> bool:
    """Returns whether there are failed rows that a retry could change."""
    return job.failed > job.errors.get(_NO_REQUEST, 0)


def _stopped_early(summary: Summary) -> bool:
    return summary.stopped_early or summary.failure is not None


def _did_nothing(summary: Summary) -> bool:
    """Returns whether the run did nothing, because the input has changed since an earlier run."""
    failure = summary.failure
    return failure is not None and failure.kind == "input" and not summary.rows and not summary.abandoned


def _headline(summary: Summary, *, again: str = "") -> str:
    early = _stopped_early(summary)
    rows = _format.plural(summary.rows, "row")
    # In a resumed job, this run did not do all rows: `_totals` has the total.
    if early and summary.rows_known is not None and not _was_resumed(summary):
        rows = _format.part(summary.rows, summary.rows_known, "row")
    return f"{'stopped early' if early else 'done'}: {rows}{again} in {_format.duration(summary.elapsed_s)}"


def _was_resumed(summary: Summary) -> bool:
    return summary.job is not None and summary.job.rows_before > 0


def _done(job: JobFigures) -> str:
    if job.rows is None:
        return _format.plural(job.done, "row")
    return _format.part(job.done, job.rows, "row")


def _totals(summary: Summary, *, of_a_retry: bool) -> Iterator[str]:
    """Yields the totals of the job, if this run did only a part of it."""
    if summary.job is not None and (of_a_retry or _was_resumed(summary)):
        yield f"in total {_done(summary.job)} done, {_format.count(summary.job.failed)} failed"


def _next_step(summary: Summary, spell: Spell, retry: str, *, of_a_retry: bool) -> Iterator[str]:
    """Yields advice on how to finish the job."""
    job, failure = summary.job, summary.failure
    if not _stopped_early(summary):
        if of_a_retry and job is not None and not job.finished:
            yield _UNFINISHED
        elif not of_a_retry and job is not None and _can_retry(job) and job.resumable:
            yield f"retry failed rows with `{retry}`"
        return
    if job is None:
        if summary.output == STANDARD_STREAM:
            yield f"this job can't be resumed: its results went to standard output; with {spell(_DIRECTORY)} it can"
    elif of_a_retry or not job.finished:
        if not job.resumable:
            yield "this job can't be resumed, because its input can't be read again; a job that reads a file can"
        elif failure is None:
            yield _resume(summary, retry)
        # A job whose input was repaired can't be resumed, because it is another input.
        elif failure.kind == "output" and _contains_job(summary.output):
            yield "when the cause of the failure is gone, run the same command again to resume"


def _resume(summary: Summary, retry: str) -> str:
    if summary.stopped_by is None:
        return "run the same command again to resume"
    resume = "when the cause is gone, run the same command again for the rest"
    return f"{resume}, and `{retry}` for the failed rows" if summary.has_failed_rows else resume


def _contains_job(output: str) -> bool:
    """Returns whether the job is found in its directory, which may have been moved, replaced or made unreadable."""
    try:
        return Path(output, "_headgate", "job.json").is_file()
    except OSError:
        return False


def _location(summary: Summary) -> Iterator[str]:
    """Yields the location of the results, or why there are none."""
    if summary.output in _NO_DIRECTORY:
        return
    if summary.failure is not None and summary.failure.kind == "output":
        rows = "" if summary.job is None else f": {_done(summary.job)}"
        if _contains_job(summary.output):
            yield f"what was committed before the failure is safe in {summary.output}{rows}"
        else:
            yield f"the job can't be found in {summary.output} now: restore the directory to resume it"
    elif not (summary.rows or (summary.job is not None and summary.job.done)):
        yield (
            "no row has ended, and nothing was written" if _stopped_early(summary) else "there were no rows to fetch"
        )
    else:
        look = f"headgate show {shlex.quote(summary.output)}"
        yield f"results are in {summary.output}: look at them with `{look}`"


def _facts(summary: Summary, spell: Spell) -> Iterator[Fact]:
    yield from rows_by_outcome(
        summary.succeeded,
        summary.failed,
        summary.errors,
        statuses=_by_class(summary.statuses),
        reasons={kind: _reason(example, spell) for kind, example in summary.error_examples.items()},
    )
    if summary.abandoned:
        abandoned = _format.count(summary.abandoned)
        yield "abandoned", f"{abandoned}  in flight at the end: not in the results, and can be fetched again"
    yield from _effects(summary, spell)
    yield from budget_facts(summary)
    yield "requests/s", _format.count(summary.requests_per_s)
    latency = summary.latency_us
    if latency.max:  # it counts all attempts; an invalid row has none
        named = (("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("max", latency.max))
        yield "latency", ", ".join(f"{name} {_format.latency(value)}" for name, value in named)
    yield "received", _format.size(summary.received_bytes)
    yield "memory", f"{_format.size(summary.peak_rss_bytes)} at peak"
    yield "CPU", _cpu(summary)


def _effects(summary: Summary, spell: Spell) -> Iterator[Fact]:
    """Yields the effects of failures and limits."""
    if summary.retries:
        yield "retried", by_number(summary.retries)
    if summary.not_retried:
        key, without = spell(Mention("idempotency_key")), spell(Mention("retry_non_idempotent"))
        advice = f"{key} lets servers recognise a retry, {without} retries anyway"
        yield "not retried", f"{_format.count(summary.not_retried)}  servers may have acted on them: {advice}"
    if summary.resent:
        yield "resent", f"{_format.count(summary.resent)}  their connections had just been closed"
    if summary.headers_skipped:
        yield "headers skipped", f"{_format.count(summary.headers_skipped)}  they break the rules for headers"
    if summary.pauses:
        yield "pauses", by_number(summary.pauses)
    if summary.stalled_s >= MIN_STALL_S:
        yield "stalled", f"{_format.seconds(summary.stalled_s)}  the process did not run, which counts against no host"
    throttled = sorted(summary.throttled_s.items(), key=lambda item: -item[1])
    throttled = [
        (by, seconds) for by, seconds in throttled if seconds >= max(_MIN_REPORTED * summary.elapsed_s, _MIN_REPORTED)
    ]
    if throttled:
        yield (
            "throttled",
            ", ".join(f"{_format.seconds(seconds)} by {_THROTTLED_BY.get(by, by)}" for by, seconds in throttled),
        )


def _reason(example: ErrorExample, spell: Spell) -> str:
    detail = "" if example.detail is None else f" ({example.detail})"
    advice = "" if example.option is None else f"; see {spell(Mention(example.option))}"
    # A row that could not be read has no URL.
    url = f"{_short(example.url)}: " if example.url else ""
    return f"row {example.row}: {url}{example.message}{detail}{advice}"


def _short(url: str) -> str:
    return url if len(url) <= _MAX_URL else f"{url[: _MAX_URL - 1]}…"


def _cpu(summary: Summary) -> str:
    total = _format.seconds(summary.cpu_s)
    if summary.rows < _ROWS_FOR_A_RATE:
        return total
    return f"{total}, {_format.seconds(summary.cpu_s / summary.rows * _MILLION)} per million requests"


def _by_class(statuses: dict[int, int]) -> str:
    classes: dict[int, int] = {}
    for status, number in statuses.items():
        classes[status // 100] = classes.get(status // 100, 0) + number
    text = ", ".join(f"{first_digit}xx: {_format.count(number)}" for first_digit, number in sorted(classes.items()))
    return text and f"({text})"
