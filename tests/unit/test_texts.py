"""The texts that a person reads: tests/snapshots/messages.txt has all of them.

`HEADGATE_WRITE_SNAPSHOT=1 pytest tests/unit/test_texts.py` writes them anew; read what has changed.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from headgate import JobStatus, Snapshot, Summary
from headgate._native import ERROR_KINDS
from headgate.cli import _foreign
from headgate.cli._exit_codes import MEANINGS, STATUS_MEANINGS
from headgate.jobs import _display, _report
from headgate.jobs._as_flag import as_flag
from headgate.jobs._status import report as status_report
from support import command
from support.documents import ROOT
from support.figures import RESUMED, SNAPSHOT, STATUS, SUMMARY
from support.message_file import check
from support.sentences import of_engine, of_package

FAILURE: Final = {"kind": "output", "message": ["results/part-00000001.parquet.tmp: no space left on device"]}
THROTTLED: Final = {
    "retries": {"status:503": 1_200, "timeout": 3},
    "not_retried": 7,
    "resent": 1_004,
    "headers_skipped": 12,
    "pauses": {"api.example.com": 39},
    "stalled_s": 6.0,
    "throttled_s": {
        cause: 10.0 - index / 2
        for index, cause in enumerate(
            (
                *("rate", "cost", "host_rate", "host_concurrency", "pause", "circuit_breaker", "network", "backoff"),
                *("retry_budget", "head_of_line", "paused"),
            )
        )
    },
}
FINISHED: Final = RESUMED | {"rows_before": 200_000, "done": 200_000, "finished": True}


MISTAKES: Final = (
    "fetch",
    "fetch u.txt",
    "fetch u.txt -o r --timeout",
    "fetch u.txt -o r --timeout 30x",
    "fetch u.txt -o r --timeout -1s",
    "fetch u.txt -o r --max-body-size 16MX",
    "fetch u.txt -o r --rate fast",
    "fetch u.txt -o r --retries 1.5",
    "fetch u.txt -o r --max-rows 0",
    "fetch u.txt -o r --format xml",
    "fetch u.txt -o r --if-exists replace",
    "fetch u.txt -o r --retry-on connect,none",
    "fetch u.txt -o r --retry-on +connect,429",
    "fetch u.txt -o r --concurency 3",
    "fetch u.txt -o r --retries 3 --retries 4",
    "fetch u.txt -o r -x proxy -x env",
    "fetch u.txt -o r --json {} -d x",
    "fetch u.txt -o r --extract price",
    "retry",
    "retry r --only timeouts",
    "serve --api-burst 3",
    "show",
    "plan u.txt --max-failures never",
)
"""Commands with mistakes."""


def summary(**changes: Any) -> Summary:
    return Summary.from_json(json.dumps(SUMMARY | changes), as_flag)


def snapshot(**changes: Any) -> Snapshot:
    return Snapshot.from_json(json.dumps(SNAPSHOT | changes), as_flag)


def texts() -> Iterator[tuple[str, str]]:
    """Yields each text with its occasion."""
    slow = {"host": "shop.example", "rows": 26, "in_flight": 2}
    yield "the start of a resumed job", str(_report.greeting(summary(job=RESUMED)))
    yield "the start of a job that can't be resumed", str(_report.greeting(summary(job=RESUMED | {"resumable": False})))
    yield "progress, a line", _display.progress_line(snapshot())
    yield "progress, a short line", _display.short_line(snapshot(slowest_host=slow))
    yield "progress of a job that waits for one host", _display.progress_line(snapshot(slowest_host=slow))
    yield "progress while stopping", _display.progress_line(snapshot(stopping=True))
    yield "the end", _report.report(summary(), as_flag)
    yield "the end, with retries and limits", _report.report(summary(**THROTTLED), as_flag)
    yield "the end of a resumed job", _report.report(summary(job=RESUMED | {"finished": True}), as_flag)
    yield "interrupted", _report.report(summary(job=RESUMED, interrupted=True, abandoned=1_234), as_flag)
    yield "stopped by itself", _report.report(summary(job=RESUMED, stopped_by="more than 10 rows failed"), as_flag)
    yield "a full disk", _report.report(summary(job=RESUMED, failure=FAILURE), as_flag)
    yield "no row was done", _report.report(summary(rows=0, succeeded=0, failed=0, errors={}, statuses={}), as_flag)
    yield "the reader is gone", _report.report(summary(reader_gone=True, output="-"), as_flag)
    yield "nothing to do", _report.report(summary(rows=0, job=FINISHED), as_flag)
    yield "the end of a retry", _report.retry_report(summary(job=FINISHED), as_flag)
    yield "a retry without rows", _report.retry_report(summary(rows=0, job=FINISHED), as_flag)
    yield "with --quiet", str(_report.quiet_report(summary(job=FINISHED)))
    yield "status", status_report(JobStatus.from_json(json.dumps(STATUS)))
    yield "exit codes", "\n".join(f"{code}  {meaning}" for code, meaning in MEANINGS.items())
    yield "exit codes of status", "\n".join(f"{code}  {meaning}" for code, meaning in STATUS_MEANINGS.items())
    yield "error kinds", "\n".join(f"{kind}: {when}" for kind, when in ERROR_KINDS)


def test_the_texts_of_the_command_line_are_those_in_the_file() -> None:
    check("The command line", "\n\n".join(f"# {occasion}\n{text}" for occasion, text in texts()))


def test_the_mistakes_on_the_command_line_are_explained_as_in_the_file() -> None:
    commands = ["\n    ".join([f"headgate {line}", *command.refusal(*line.split())]) for line in MISTAKES]
    foreign = [text for flag in _foreign.MEANINGS for text in command.mistakes("fetch", "u.txt", "-o", "r", flag)]
    check("Mistakes on the command line", "\n".join([*commands, "", "# flags of other programs", *foreign]))


@pytest.mark.parametrize(("chapter", "modules"), [("The package", of_package), ("The engine", of_engine)])
def test_the_sentences_of_the_code_are_those_in_the_file(
    chapter: str, modules: Callable[[Path], Iterable[tuple[Path, list[str]]]]
) -> None:
    found = ((path.relative_to(ROOT), sentences) for path, sentences in modules(ROOT) if sentences)
    check(
        f"{chapter}: its sentences, by module, without their values",
        "\n\n".join("\n".join([f"# {path}", *sentences]) for path, sentences in found),
    )
