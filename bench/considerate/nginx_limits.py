"""Measures how many requests a real nginx refuses with `limit_req` and `limit_conn`."""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from considerate import fetching
from considerate.fetching import Client, Fetched
from harness import nginx, tables
from harness.findings import Finding

REQUESTS_PER_S: Final = 100
BURST: Final = 5
AT_ONCE: Final = 20
DELAY_S: Final = 0.05
_SHARE: Final = 0.95
_REQ_ROWS: Final = 2_000
_CONN_ROWS: Final = 8_000
_LONGEST_S: Final = 120.0
_LEAST_RATIO: Final = 0.9
_MOST_REFUSED: Final = 0.05
_CONFIG: Final = """\
    log_format status "$status";
    keepalive_requests 1000000000;
    limit_req_zone $server_name zone=requests:1m rate={per_s}r/s;
    limit_conn_zone $server_name zone=connections:1m;
    upstream behind {{ server 127.0.0.1:{behind}; keepalive 100; }}
    server {{
        listen 127.0.0.1:{port};
        server_name limited;
        access_log {log} status;
        error_log /dev/null crit;
        location /requests/ {{ limit_req zone=requests burst={burst} nodelay; return 200 "Hello, World!"; }}
        location /connections/ {{
            limit_conn connections {at_once};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://behind;
        }}
    }}
"""
_NOTE: Final = f"""\
`limit_req` allows {REQUESTS_PER_S} requests a second with `burst={BURST} nodelay`; the client runs with `--rate` at
{_SHARE:.0%} of it. `limit_conn` allows {AT_ONCE} requests at once, each with a response after {DELAY_S * 1000:.0f} ms;
the client runs with `--concurrency-per-host auto` and with the limit itself, which is the best fixed setting. The
statuses are those of nginx's access log, each attempt once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A run: the figures of the client, and the statuses in nginx's log."""

    asked: str
    fetched: Fetched
    statuses: Counter[str]

    @property
    def refused(self) -> float:
        """The refused share of all attempts."""
        return self.statuses["503"] / max(1, self.statuses.total())


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures each limit separately."""
    client = fetching.client_of(arguments, "nginx")
    runs = [
        _run(client, "requests", _REQ_ROWS, ["--rate", f"{round(_SHARE * REQUESTS_PER_S)}/s"]),
        _run(client, "connections", _CONN_ROWS, ["--concurrency-per-host", str(AT_ONCE)]),
        _run(client, "connections", _CONN_ROWS, ["--concurrency-per-host", "auto"]),
    ]
    return finding(runs)


def _run(client: Client, path: str, rows: int, flags: Sequence[str]) -> Ran:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        log = Path(scratch, "statuses")
        with _limited(client, log) as url:
            source = f"{url}/{path}/[1-{rows}]"
            fetched = fetching.fetch(client, source, flags, longest_s=_LONGEST_S, fails=True)
        return Ran(asked=f"{path}, {' '.join(flags)}", fetched=fetched, statuses=Counter(log.read_text().split()))


@contextmanager
def _limited(client: Client, log: Path) -> Iterator[str]:
    with (
        client.server("--delay", str(DELAY_S)) as behind,
        tempfile.TemporaryDirectory(prefix="headgate-bench-nginx-") as directory,
    ):
        port = nginx.free_port()
        config = _CONFIG.format(
            log=log,
            per_s=REQUESTS_PER_S,
            burst=BURST,
            at_once=AT_ONCE,
            behind=behind.port,
            port=port,
        )
        config = nginx.framed(config, Path(directory))
        with nginx.configured(config, Path(directory), port, client.cores.server):
            yield f"http://127.0.0.1:{port}"


def finding(runs: Sequence[Ran]) -> Finding:
    """Returns the targets and a row for each run."""
    limited, fixed, auto = runs
    ratio = (auto.statuses["200"] / auto.fetched.elapsed_s) / (fixed.statuses["200"] / fixed.fetched.elapsed_s)
    targets = [
        tables.at_most(f"limit_req, {limited.asked}: 503", limited.statuses["503"], 0, "responses", form=".0f"),
        tables.at_least("limit_conn: responses/s, auto / best fixed", ratio, _LEAST_RATIO),
        tables.at_most("limit_conn: refused, auto", auto.refused, _MOST_REFUSED, "of all", form=".3f"),
    ]
    lines = [
        [
            run.asked,
            f"{run.fetched.elapsed_s:.1f}",
            ", ".join(f"{count:,} times {status}" for status, count in sorted(run.statuses.items())),
            f"{run.fetched.succeeded:,} succeeded, {run.fetched.failed:,} failed",
        ]
        for run in runs
    ]
    raw: list[dict[str, Any]] = [
        {"asked": run.asked, "elapsed_s": run.fetched.elapsed_s, "statuses": dict(run.statuses)} for run in runs
    ]
    table = tables.table(["asked", "seconds", "attempts", "rows"], lines)
    wrong = [f"{run.asked}: {run.fetched.wrong}" for run in runs if run.fetched.wrong]
    return Finding(title="nginx", targets=targets, text=f"{_NOTE}\n\n{table}", raw=raw, wrong=wrong)
