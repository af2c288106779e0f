"""The metrics of a running job, served for Prometheus by a thread of its own.

Each reader gets a thread, of which there are few, and little time: one that hangs holds up no job, no memory and, for
longer than that time, no other reader. The figures are taken twice a second at most, however often they are read. Label
values are bounded: they are names of this module and of the engine, and status codes that are registered; a host is
never one.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from socket import SHUT_RDWR
from threading import Lock, Thread
from typing import Any, Final, TypeAlias, cast

from headgate import _native
from headgate.jobs._local_server import LocalRequest, LocalServer
from headgate.jobs._signals import RunningJob

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_AGE_S: Final = 0.5
"""How old the figures may be."""

_PHASES: Final = ("starting", "running", "waiting", "paused", "stopping", "merging", "keeping", "ended")
_MICROSECONDS: Final = 1e6

Sample: TypeAlias = tuple[str, Mapping[str, str], float]
"""A suffix of the metric's name, labels and a value."""


class MetricsServer(LocalServer):
    """Listens at an address from its creation on, and serves the metrics of a run until that ends.

    Attributes:
        url: The URL of the metrics, with the port that was found free if none was named.
    """

    def __init__(self, address: str) -> None:
        """Listens.

        Raises:
            UsageError: It can't listen at this address.
        """
        self._is_closed = False
        self._thread: Thread | None = None
        self._job: RunningJob | None = None
        self._text = ""
        self._text_until = 0.0
        self._text_lock = Lock()
        super().__init__(address, _Request, "metrics")
        self.url: str = f"{self.root}{PATH}"

    def serve(self, job: RunningJob) -> None:
        """Serves the metrics of this run, in a thread, until the run ends or `close` is called."""
        self._job = job
        self._thread = Thread(target=self._serve_until_end, args=(job,), name="headgate-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Frees the port; returns when that is done."""
        self._is_closed = True
        if self._thread is None:
            self.server_close()
            return
        # It wakes the thread.
        with suppress(OSError):
            self.socket.shutdown(SHUT_RDWR)
        self._thread.join()

    def _serve_until_end(self, job: RunningJob) -> None:
        with self:
            self.serve_until(lambda: self._is_closed or job.wait(0))

    def text(self) -> str:
        """Returns the metrics as Prometheus reads them."""
        with self._text_lock:
            if self._job is not None and time.monotonic() >= self._text_until:
                self._text = exposition(self._job.snapshot(), self._job.summary())
                self._text_until = time.monotonic() + _MAX_AGE_S
            return self._text


class _Request(LocalRequest):
    def reply(self) -> None:
        """Responds with the metrics."""
        server = cast("MetricsServer", self.server)
        is_found = self.path.partition("?")[0] == PATH
        status = HTTPStatus.OK if is_found else HTTPStatus.NOT_FOUND
        self.respond(status, CONTENT_TYPE, server.text() if is_found else f"metrics are at {PATH}\n")


def exposition(snapshot: str, summary: str) -> str:
    """Returns the figures of a run, both as the engine's JSON, in the text format of Prometheus."""
    lines = chain.from_iterable(
        _lines(name, kind, text, samples)
        for name, kind, text, samples in _metrics(json.loads(snapshot), json.loads(summary))
    )
    return "\n".join(lines) + "\n"


def _lines(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Yields a metric with its samples; values of labels need no escapes, as they are names and numbers."""
    yield f"# HELP headgate_{name} {text}"
    yield f"# TYPE headgate_{name} {kind}"
    for suffix, labels, value in samples:
        shown = ",".join(f'{label}="{of}"' for label, of in labels.items())
        yield f"headgate_{name}{suffix}{f'{{{shown}}}' if shown else ''} {value}"


def _metrics(now: dict[str, Any], total: dict[str, Any]) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    """Yields the metrics: the name without `headgate_`, the type, what it is, and its samples."""

    def one(value: float | None) -> Iterable[Sample]:
        return [] if value is None else [("", {}, value)]

    def by(label: str, values: Mapping[str, float]) -> Iterable[Sample]:
        return (("", {label: name}, value) for name, value in values.items())

    yield "build_info", "gauge", "The version of headgate.", [("", {"version": _native.__version__}, 1)]
    outcomes = {"succeeded": now["succeeded"], "failed": now["failed"]}
    yield "rows_total", "counter", "Rows that have ended in this run.", by("outcome", outcomes)
    yield "attempts_total", "counter", "Attempts that were sent and have ended.", one(now["attempts"])
    yield "responses_total", "counter", "Succeeded rows by status.", by("code", _registered(total["statuses"]))
    yield "errors_total", "counter", "Failed rows by error kind or status.", by("kind", _registered(total["errors"]))
    retries = _registered(total["retries"])
    yield "retries_total", "counter", "Attempts that were followed by a retry, by cause.", by("cause", retries)
    yield "pauses_total", "counter", "Pauses that hosts requested.", one(sum(now["pauses"].values()))
    opened = sum(now["breakers_opened"].values())
    yield "circuit_breakers_opened_total", "counter", "Circuit breakers of hosts that have opened.", one(opened)
    yield "received_bytes_total", "counter", "Bytes of bodies before decoding.", one(now["received_bytes"])
    seconds = now["throttled_s"]
    yield "throttled_seconds_total", "counter", "Time in which nothing could start, by cause.", by("cause", seconds)
    yield "stalled_seconds_total", "counter", "Time in which the process did not run.", one(now["stalled_s"])
    yield "cpu_seconds_total", "counter", "CPU time of the process for the run.", one(total["cpu_s"])
    yield "request_duration_seconds", "histogram", "Times of the last attempts of rows.", _histogram(now["latencies"])
    yield "requests_in_flight", "gauge", "Attempts that have not ended.", one(now["in_flight"])
    yield "concurrency", "gauge", "The limit of requests in flight.", one(now["concurrency"])
    yield (
        "lanes_waiting",
        "gauge",
        "Lanes that wait for something else than a server.",
        by("cause", now["lanes_waiting"]),
    )
    yield "paused_hosts", "gauge", "Hosts that are paused now.", one(now["paused_hosts"])
    yield "open_circuit_breakers", "gauge", "Hosts whose circuit breakers are open.", one(now["open_breakers"])
    down = now["network_down_s"] or 0
    yield "network_down_seconds", "gauge", "For how long no host could be reached; 0: the network works.", one(down)
    yield "unresponsive_seconds", "gauge", "For how long no event loop has run.", one(now["unresponsive_s"])
    writing = now["writing_s"] or 0
    yield "write_seconds", "gauge", "How long the current write of results takes; 0: there is none.", one(writing)
    yield "job_rows", "gauge", "Rows of the input, if known.", one(now["rows_known"])
    done = now["rows_before"] + now["rows"]
    yield "job_rows_done", "gauge", "Rows that are done, in all runs of the job.", one(done)
    committed = now["commit"] and now["commit"]["done"]
    yield "job_rows_committed", "gauge", "Rows that are done and committed.", one(committed)
    yield "job_requests", "gauge", "Requests that count for the budget, in all runs of the job.", one(now["requests"])
    yield "job_cost", "gauge", "What rows have cost, in all runs of the job.", one(now["cost"])
    yield "time_left_seconds", "gauge", "Time until the job is done, if known.", one(now["time_left_s"])
    last_row = time.time() - now["since_last_row_s"]
    yield "last_row_timestamp_seconds", "gauge", "When a row last ended, or the run began.", one(last_row)
    phases = {phase: int(phase == now["phase"]) for phase in _PHASES}
    yield "phase", "gauge", "1 for what the run does now.", by("phase", phases)
    yield "bottleneck", "gauge", "1 for the bottleneck of the last seconds.", by("kind", {now["bottleneck"]["kind"]: 1})
    yield "resident_memory_peak_bytes", "gauge", "The largest resident memory so far.", one(total["peak_rss_bytes"])


def _histogram(latencies: Mapping[str, Any]) -> Iterator[Sample]:
    for up_to_us, count in latencies["up_to_us"]:
        yield "_bucket", {"le": f"{up_to_us / _MICROSECONDS:g}"}, count
    yield "_bucket", {"le": "+Inf"}, latencies["count"]
    yield "_sum", {}, latencies["sum_us"] / _MICROSECONDS
    yield "_count", {}, latencies["count"]


def _registered(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns counts by status or error kind, with statuses that are not registered as one: servers invent them."""
    found: dict[str, int] = {}
    for name, count in counts.items():
        before, colon, status = name.rpartition(":")
        known = f"{before}{colon}other" if status.isdigit() and int(status) not in _CODES else name
        found[known] = found.get(known, 0) + count
    return found


_CODES: Final = frozenset(int(status) for status in HTTPStatus)
