"""Measures whether `--concurrency-per-host auto` finds the capacity of a server, also when it changes."""

import argparse
import math
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from considerate import fetching
from considerate.fetching import Client
from harness import processes, servers, tables
from harness.findings import Finding
from harness.servers import LocalServer, ServerError

_LEAST_RATIO: Final = 0.9
_MOST_REFUSED: Final = 0.05
_BACK_TRIPS: Final = 20
_BACK_S: Final = 10.0
_EVERY_S: Final = 0.1
_TAIL: Final = 400
_ROWS: Final = 1_000_000_000
"""More than are requested, because the clock stops each run."""
_NOTE: Final = f"""\
One host, `headgate serve --delay D --capacity N`, which delays requests beyond N, or with `--refuse` responds to
them with 503. Responses a second are those with status 200 in the second half of a run. The best fixed setting is the
better of N and a quarter more. Then N is halved in mid-run, and later doubled: the responses of a window must reach
{_LEAST_RATIO:.0%} of what the best setting gives for the new N after at most {_BACK_TRIPS} round trips or
{_BACK_S:.0f} s, whichever is longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A server with a capacity of concurrent requests."""

    capacity: int
    delay_s: float
    refuses: bool
    seconds: float

    @property
    def name(self) -> str:
        """The name in tables."""
        beyond = "503" if self.refuses else "slower"
        return f"N = {self.capacity:,}, {self.delay_s * 1000:.0f} ms, {beyond} beyond"

    @property
    def most_in_flight(self) -> int:
        """The concurrency of the client, which is more than any setting needs."""
        return 2 * self.capacity + 50

    @property
    def window_s(self) -> float:
        """The window in which responses are counted for a rate: some round trips, and at least 100 responses."""
        return max(5 * self.delay_s, 0.5, 100 * self.delay_s / self.capacity)

    @property
    def back_s(self) -> float:
        """The bound of the time to recover, including the window that shows it."""
        return max(_BACK_S, _BACK_TRIPS * self.delay_s) + self.window_s


CASES: Final = tuple(
    Case(capacity=capacity, delay_s=delay_s, refuses=refuses, seconds=seconds)
    for capacity, delay_s, seconds in ((8, 0.05, 12.0), (200, 0.05, 12.0), (5_000, 1.0, 40.0))
    for refuses in (False, True)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The counts of a server at a time."""

    time_s: float
    succeeded: int
    refused: int
    in_progress: int


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures each case with each setting, then with changes."""
    client = fetching.client_of(arguments, "adaptive")
    cases = [case for case in CASES if case.capacity in arguments.capacities]
    servers.raise_open_files(max(case.most_in_flight for case in cases))
    records: list[dict[str, Any]] = []
    for case in cases:
        quarter_more = math.ceil(1.25 * case.capacity)
        for setting in (str(case.capacity), str(quarter_more), "auto"):
            samples = _watched(client, case, setting, [(0.0, case.capacity)], case.seconds)
            records.append({"case": case.name, "setting": setting, **steady(samples)})
        best_per_s = max(record["responses_per_s"] for record in records[-3:-1])
        third_s = max(case.seconds, 3 * case.back_s) / 3
        steps = [(0.0, case.capacity), (third_s, case.capacity // 2), (2 * third_s, case.capacity)]
        samples = _watched(client, case, "auto", steps, 3 * third_s)
        for begun_s, capacity in steps[1:]:
            wanted_per_s = _LEAST_RATIO * best_per_s * capacity / case.capacity
            back = back_after(samples, begun_s, wanted_per_s, case.window_s, until_s=begun_s + third_s)
            records.append({"case": case.name, "setting": f"auto, to {capacity}", "back_s": back})
    return finding(records)


def _watched(
    client: Client, case: Case, setting: str, steps: Sequence[tuple[float, int]], seconds: float
) -> list[Sample]:
    """Runs the client for a time, changes the capacity at each of these times, and interrupts the client."""
    flags = ["--delay", str(case.delay_s), "--capacity", str(steps[0][1]), *(["--refuse"] if case.refuses else [])]
    with client.server(*flags) as server:
        typed = [
            str(client.program),
            "fetch",
            f"{server.url}/[1-{_ROWS}]",
            "--format",
            "none",
            "-q",
            "--shutdown-timeout",
            "0",
        ]
        typed += ["-c", str(case.most_in_flight), "--concurrency-per-host", setting, "--max-failures", "never"]
        with processes.pinned(client.cores.client):
            process = subprocess.Popen(typed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with servers.terminated_at_end(process):
            samples = _sampled(server, steps, seconds, lambda: process.poll() is None)
            if process.poll() is not None:
                raise ServerError(f"headgate fetch has ended by itself: {process.communicate()[1][-_TAIL:].strip()}")
            process.send_signal(signal.SIGINT)
            process.communicate()
    return samples


def _sampled(
    server: LocalServer, steps: Sequence[tuple[float, int]], seconds: float, runs: Callable[[], bool]
) -> list[Sample]:
    begun, left = time.monotonic(), list(steps)[1:]
    samples: list[Sample] = []
    while (now_s := time.monotonic() - begun) < seconds and runs():
        if left and now_s >= left[0][0]:
            servers.get(f"{server.url}/capacity/{left.pop(0)[1]}")
        seen = server.stats()
        of_status = seen["responses"]
        samples.append(
            Sample(
                time_s=now_s,
                succeeded=of_status.get("200", 0),
                refused=of_status.get("503", 0),
                in_progress=seen["requests_in_progress"],
            )
        )
        time.sleep(_EVERY_S)
    return samples


def steady(samples: Sequence[Sample]) -> dict[str, float]:
    """Returns figures of the second half: responses a second, the refused share, requests at once."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:  # noqa: PLR2004 - a time needs two ends
        return {"responses_per_s": 0.0, "refused": 0.0, "in_progress": 0.0}
    first, last = late[0], late[-1]
    succeeded, refused = last.succeeded - first.succeeded, last.refused - first.refused
    return {
        "responses_per_s": succeeded / (last.time_s - first.time_s),
        "refused": refused / max(1, succeeded + refused),
        "in_progress": sum(sample.in_progress for sample in late) / len(late),
    }


def back_after(
    samples: Sequence[Sample], begun_s: float, wanted_per_s: float, window_s: float, *, until_s: float
) -> float:
    """Returns how long after a change the first window with enough responses ends, or infinity if there is none."""
    for index, start in enumerate(samples):
        if not begun_s <= start.time_s < until_s:
            continue
        end = next((sample for sample in samples[index:] if sample.time_s >= start.time_s + window_s), None)
        if end is None or end.time_s > until_s:
            return math.inf
        if (end.succeeded - start.succeeded) / (end.time_s - start.time_s) >= wanted_per_s:
            return end.time_s - begun_s
    return math.inf


def finding(records: Sequence[dict[str, Any]]) -> Finding:
    """Returns the targets and rows of each case."""
    targets = []
    for case in CASES:
        own = [record for record in records if record["case"] == case.name]
        if not own:
            continue
        rates = {record["setting"]: record["responses_per_s"] for record in own if "responses_per_s" in record}
        auto = rates.pop("auto", None)
        best = max(rates.values(), default=0.0)
        ratio = None if auto is None or not best else auto / best
        targets.append(tables.at_least(f"{case.name}: responses/s, auto / best fixed", ratio, _LEAST_RATIO))
        if case.refuses:
            refused = next((record["refused"] for record in own if record["setting"] == "auto"), None)
            targets.append(tables.at_most(f"{case.name}: refused", refused, _MOST_REFUSED, "of all", form=".3f"))
        targets += [
            tables.at_most(f"{case.name}: back, {record['setting']}", record["back_s"], case.back_s, "s")
            for record in own
            if "back_s" in record
        ]
    rows = [
        [
            record["case"],
            record["setting"],
            f"{record['responses_per_s']:,.0f}",
            f"{record['refused']:.1%}",
            f"{record['in_progress']:,.0f}",
        ]
        for record in records
        if "responses_per_s" in record
    ]
    table = tables.table(["server", "setting", "responses/s", "refused", "at once"], rows)
    wrong = [
        f"{record['case']}, {record['setting']}: no responses"
        for record in records
        if record.get("responses_per_s") == 0
    ]
    return Finding(
        title="Adaptive concurrency", targets=targets, text=f"{_NOTE}\n\n{table}", raw=[*records], wrong=wrong
    )
