"""Measures the cost of columns of JSON responses: three of each, compared with plain fetches."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Final

from harness import columns, command, findings, in_turn, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.nginx import JSON, JSON_BODY, nginx
from harness.servers import ServerError
from harness.trial import Trial, cpu_s_per_request, median_ratio
from rivals.headgate import FORMATS, Headgate

PLAIN: Final = "plain"
SELECTED: Final = "3 selected"
SEARCHED: Final = "3 searched"
_KNOWN_PLACES: Final = ("answer=$.choices[0].message.content", "tokens:int64=$.usage.total_tokens")
_LEAST_RATIO: Final = 0.9
_LEAST_ROWS: Final = 20_000
_COLUMNS: Final = (columns.CLIENT_BUSY, columns.SERVER_BUSY, columns.TRIALS)
_NOTE: Final = f"""\
One core for headgate, one for nginx, which responds with a chat completion of {len(JSON_BODY):,} bytes. headgate
selects a text, a number and the header `content-type` from it: the first two on the fast path (`{SELECTED}`), or with
`..` in their paths, which needs the whole body as a tree (`{SEARCHED}`). Where results are kept, so are bodies and
headers."""


def _flags(paths: Sequence[str]) -> tuple[str, ...]:
    selections = (*paths, "type=header:content-type")
    return (*(flag for selection in selections for flag in ("--extract", selection)), "--require", "answer,tokens")


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures for each concurrency and format of results a warm-up, then rounds of all."""
    cores = command.two_cores("select")
    ways = {
        PLAIN: (),
        SELECTED: _flags(_KNOWN_PLACES),
        SEARCHED: _flags([path.replace("$.", "$..", 1) for path in _KNOWN_PLACES]),
    }
    rivals = [
        Headgate(arguments.headgate, format_, label=label, flags=flags)
        for format_ in FORMATS
        for label, flags in ways.items()
    ]
    if why := rivals[0].missing():
        raise ServerError(why)
    trials: list[Trial] = []
    with nginx(cores.server) as server:
        for concurrency in arguments.concurrency:
            series = Series(
                scenario="select",
                concurrency=concurrency,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
                least=_LEAST_ROWS,
                url=server.url + JSON,
                body_bytes=len(JSON_BODY),
            )
            trials += in_turn.trials(series, rivals, server, cores)
    return finding(trials)


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns targets and rows for each concurrency and format of results."""
    targets, rows = [], []
    for concurrency in dict.fromkeys(trial.concurrency for trial in trials):
        own = [trial for trial in trials if trial.concurrency == concurrency]
        for format_ in FORMATS:
            for label in (PLAIN, SELECTED, SEARCHED):
                of_client = dataclasses.replace(_NOBODY, label=label, format=format_).name
                plain = dataclasses.replace(_NOBODY, label=PLAIN, format=format_).name
                ratio = median_ratio(own, of_client, plain)
                cpu = median_ratio(own, of_client, plain, figure=cpu_s_per_request)
                if label == SELECTED:
                    promise = f"requests/s, {of_client} / {PLAIN}, c = {concurrency:,}"
                    targets.append(tables.at_least(promise, ratio, _LEAST_RATIO))
                of_label = [trial for trial in own if trial.client == of_client]
                rows.append(
                    [
                        label,
                        f"{concurrency:,}",
                        format_,
                        *columns.figures(of_label, columns.REQUESTS_PER_S),
                        tables.number(ratio, ".2f"),
                        *columns.figures(of_label, columns.CPU_US),
                        tables.number(cpu, ".2f"),
                        *columns.figures(of_label, *_COLUMNS),
                    ]
                )
    head = ["", "in flight", "kept", columns.REQUESTS_PER_S, "ratio", columns.CPU_US, "ratio", *_COLUMNS]
    return findings.of_trials("Columns of JSON responses", targets, f"{_NOTE}\n\n{tables.table(head, rows)}", trials)


_NOBODY: Final = Headgate(command.HEADGATE, "none")
