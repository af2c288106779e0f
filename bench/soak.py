"""A long job with mixed faults, which loses no row and does not grow: `make soak` runs it for 30 minutes.

It has 2,000 hosts with HTTP/1.1, TLS and HTTP/2, some of them dead, and rows that succeed, fail and hang. While it
runs with limits and retries, it is killed and stopped, its disk is full and its token command fails. Its files are
kept: the log, the metrics and the report must suffice to say what happened and when; `story.json` has the truth.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, signal
from statistics import median
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from support.certificates import certificate
from support.disks import SmallDisk, small_disk
from support.programs import free_port
from support.run import HEADGATE, serving

MINUTES: Final = 30.0
HOSTS: Final = 2_000
DEAD_HOSTS: Final = 10
IN_FLIGHT: Final = 500
ROWS_PER_S: Final = 800
"""About what these requests and this delay allow, so that the job takes longer than the faults."""
DELAY: Final = "0.2..1"
TIMEOUT_S: Final = 5
STOPPED_S: Final = 15
DISK: Final = "2g"
MOST_S: Final = 60
"""In which a run ends after a fault that ends it."""
ROOM_BYTES: Final = 64 << 10
"""What is left of the disk when it is full."""
IDLE_CONNECTIONS: Final = 2_000
"""So many that most requests find one, and few enough that there are as many within a minute."""
MOST_GROWTH: Final = {"memory": 40 << 20, "files": 100, "threads": 1}
"""The bound of what each figure of a run may grow by after its first minute. Rows that wait for their hosts, which are
more while the machine is busy, may take 32 MiB."""
MOST_OWN_GROWTH: Final = {"own_files": 20, "own_bytes": 512 << 10}
"""The same of the directory's, after the first minutes of the job."""
MOST_DELTA_FILES: Final = 320
FAULTS: Final[Sequence[tuple[float, str]]] = (
    (0.15, "stop"),
    (0.25, "disk"),
    (0.45, "stop"),
    (0.55, "token"),
    (0.75, "stop"),
)
"""The share of the time at which they come. Between them, the job is killed each tenth of it."""
KILLS: Final = 9
SERIES: Final = "series.ndjson"

_FAILED_ROWS: Final = 3
"""The exit code of a job that is done, some of whose rows failed."""
_LOGIN_PROGRAM: Final = """\
import pathlib, sys, urllib.request
if pathlib.Path({revoked!r}).exists():
    sys.exit("the account is locked")
print(urllib.request.urlopen({url!r}).read().decode())
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Rows that have the same outcome.

    Attributes:
        share: Of a thousand rows.
        path: Their path.
        outcomes: The statuses and errors that they may have in the end.
    """

    share: int
    path: str
    outcomes: frozenset[tuple[int | None, str | None]]


def _kind(share: int, path: str, *outcomes: tuple[int | None, str | None]) -> Kind:
    return Kind(share, path, frozenset(outcomes))


KINDS: Final = (
    _kind(940, "/page/{row}", (200, None)),
    _kind(30, "/status/404?{row}", (404, None)),
    _kind(20, "/status/503?{row}", (503, None)),
    _kind(4, "/fault/reset-mid-body?{row}", (200, "connection_closed")),
    # The test server has no such fault for HTTP/2.
    _kind(4, "/fault/close-mid-headers?{row}", (None, "connection_closed"), (501, None)),
    _kind(2, "/fault/hang-before-headers?{row}", (None, "timeout")),
)
DEAD: Final = _kind(0, "/dead?{row}", (None, "connect"), (None, "host_down"))

BUSY: Final = frozenset[tuple[int | None, str | None]]({(None, "connect_timeout")})
"""What any row may end with on a busy machine."""


@dataclass(slots=True)
class Sample:
    """What the process and its directory took at a time of its run."""

    run: int
    run_s: float
    memory: int
    files: int
    threads: int
    own_files: int
    own_bytes: int
    delta_files: int


@dataclass(slots=True)
class Story:
    """What was done to the job, and when; what went wrong."""

    began: float = field(default_factory=time.time)
    events: list[dict[str, object]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def add(self, event: str, **figures: object) -> None:
        """Records and prints an event."""
        self.events.append({"after_s": round(time.time() - self.began, 1), "event": event, **figures})
        print(*(f"{name}={value}" for name, value in self.events[-1].items()), flush=True)


@dataclass(frozen=True, slots=True)
class Place:
    """The files of the job."""

    directory: Path
    out: Path
    disk: SmallDisk | None
    revoked: Path


class Row:
    """The URL of a row, and its kind, which follow from its number."""

    def __init__(self, ports: Sequence[int], dead: int) -> None:
        """`ports`: of HTTP, TLS and HTTP/2; at `dead`, no server listens."""
        self._ports = ports
        self._dead = dead
        self._kinds = [kind for kind in KINDS for _ in range(kind.share)]

    def kind(self, row: int) -> Kind:
        """Returns the kind of a row."""
        # A multiplicative hash, so that the kinds of a host's rows are mixed.
        return DEAD if row % HOSTS < DEAD_HOSTS else self._kinds[row * 7919 // HOSTS % len(self._kinds)]

    def url(self, row: int) -> str:
        """Returns its URL: half of the hosts have HTTP/1.1, a quarter TLS, and a quarter HTTP/2."""
        host = row % HOSTS
        address = f"127.{1 + host // 250}.0.{1 + host % 250}"
        plain, secure, http2 = self._ports
        scheme, port = (("http", plain), ("https", secure), ("http", plain), ("https", http2))[host % 4]
        if host < DEAD_HOSTS:
            scheme, port = "http", self._dead
        return f"{scheme}://{address}:{port}{self.kind(row).path.format(row=row)}"


def main() -> int:
    """Runs the soak, and returns 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description="A long job with mixed faults, which loses no row and does not grow.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="about how long it takes (default: %(default)s)")
    parser.add_argument("directory", type=Path, help="for its files; a new one")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True)
    signal(SIGTERM, lambda number, _: sys.exit(128 + number))
    story = Story()
    with ExitStack() as stack:
        place = stack.enter_context(_place(arguments.directory.resolve()))
        made = certificate(place.directory)
        here = ("--host", "0.0.0.0", "--delay", DELAY)  # noqa: S104 - its hosts are addresses of the loopback interface
        secure = ("--cert", str(made.file), "--key", str(made.key))
        token_s = max(arguments.minutes * 60 / 20, 5)
        faults = ("--api-fail-first", "3%", "--api-bearer-ttl", f"{token_s}s")
        plain = stack.enter_context(serving(*here, *faults))
        servers = [plain, *(stack.enter_context(serving(*here, *secure, *more)) for more in ((), ("--http2",)))]
        rows = Row([int(server.rpartition(":")[2]) for server in servers], free_port())
        total = int(arguments.minutes * 60 * ROWS_PER_S)
        urls = place.directory / "urls.csv"
        urls.write_text("url,id\n" + "".join(f"{rows.url(row)},{row}\n" for row in range(total)))
        program = place.directory / "token.py"
        program.write_text(_LOGIN_PROGRAM.format(revoked=str(place.revoked), url=f"{_local(plain)}/token"))
        command: list[str | Path] = [
            *(HEADGATE, "fetch", urls, "-o", place.out, "--keep", "id", "-q", "--cacert", made.file),
            *("--tls-server-name", "localhost", "-c", str(IN_FLIGHT), "--concurrency-per-host", "8"),
            *("--rate", "1000/s", "--rate-per-host", "20/s", "--timeout", f"{TIMEOUT_S}s", "--retries", "2"),
            *("--token-command", f"{sys.executable} {program}", "--token-timeout", "5s"),
            *("--credentials-for", "*", "--max-failures", "never", "--commit-interval", "2s"),
            *("--log-format", "json", "--log-file", place.directory / "log.jsonl", "--log-interval", "10s"),
            *("--metrics", f"127.0.0.1:{free_port()}", "--max-idle-connections", str(IDLE_CONNECTIONS)),
        ]
        _run(command, place, story, arguments.minutes * 60)
        story.add("checked", rows=total)
        story.mistakes += [*_lost(place.out, rows, total), *_growth(story.samples, arguments.minutes * 60)]
        story.mistakes += _unlogged(story, place.directory / "log.jsonl")
        story.mistakes += _of_verify(place.out)
        report: list[str | Path] = [HEADGATE, "report", place.out, "-o", place.directory / "report.html"]
        story.mistakes += _of_command(report)
        shutil.copytree(place.out / "_headgate", place.directory / "_headgate")
    (place.directory / "story.json").write_text(json.dumps(asdict(story), indent=1))
    print(*(story.mistakes or ["no row was lost, and nothing grew"]), sep="\n")
    return min(len(story.mistakes), 1)


@contextmanager
def _place(directory: Path) -> Iterator[Place]:
    """Yields where the job writes: a disk of its own, if this user may mount one."""
    if os.geteuid() != 0:
        print("without root there is no full disk")
        yield Place(directory, directory / "out", None, directory / "revoked")
        return
    with small_disk(directory / "disk", DISK) as disk:
        yield Place(directory, disk.path / "out", disk, directory / "revoked")


def _local(server: str) -> str:
    return server.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is replaced


def _schedule(seconds: float, place: Place) -> list[tuple[float, str]]:
    """Returns when each fault comes, in seconds from the start."""
    kills = [(number / (KILLS + 1), "kill") for number in range(1, KILLS + 1)]
    faults = [fault for fault in FAULTS if fault[1] != "disk" or place.disk is not None]
    return [(share * seconds, fault) for share, fault in sorted([*kills, *faults])]


def _run(command: Sequence[str | Path], place: Place, story: Story, seconds: float) -> None:
    """Runs the job until it is done, with all faults."""
    left = _schedule(seconds, place)
    for run in count(1):
        pending, since = None, 0.0
        with (place.directory / "stderr.txt").open("ab") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        story.add("run", number=run, pid=process.pid)
        began = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(1)
                with suppress(OSError, ValueError, KeyError):
                    story.samples.append(_sample(process.pid, run, time.monotonic() - began, place.out))
                    _scrape(command, place.directory)
                if pending is not None and time.monotonic() - since > MOST_S:
                    story.mistakes.append(f"run {run} goes on {MOST_S} s after {pending}")
                    return
                if left and time.time() - story.began >= left[0][0] and pending is None:
                    pending, since = _begin(left.pop(0)[1], process, place, story), time.monotonic()
        finally:
            process.kill()
            process.wait()
        story.add("ended", code=process.returncode)
        expected = {None: {_FAILED_ROWS}, "kill": {-SIGKILL}, "disk": {1}, "token": {4}}[pending]
        if process.returncode not in expected | {_FAILED_ROWS}:
            story.mistakes.append(f"run {run} ended with {process.returncode} instead of {expected}")
            return
        if process.returncode == _FAILED_ROWS:
            if left:
                story.mistakes.append(f"the job was done before {left}: it has too few rows")
            return
        if place.disk is not None:
            place.disk.remount(f"size={DISK}")
        place.revoked.unlink(missing_ok=True)


def _begin(fault: str, process: "subprocess.Popen[bytes]", place: Place, story: Story) -> str | None:
    """Begins a fault, and returns it if the run must end with it."""
    story.add(fault)
    if fault == "stop":
        process.send_signal(SIGSTOP)
        time.sleep(STOPPED_S)
        process.send_signal(SIGCONT)
        story.add("continued")
        return None
    if fault == "kill":
        process.kill()
    elif fault == "token":
        place.revoked.touch()
    elif place.disk is not None:
        place.disk.remount(f"size={shutil.disk_usage(place.disk.path).used + ROOM_BYTES}")
    return fault


def _sample(pid: int, run: int, run_s: float, out: Path) -> Sample:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    # The series has a bound of its own, which it reaches after an hour; results are in tmp until they are placed.
    own = [
        path.stat().st_size
        for path in (out / "_headgate").rglob("*")
        if path.is_file() and path.name != SERIES and path.parent.name != "tmp"
    ]
    return Sample(
        run=run,
        run_s=run_s,
        memory=int(status["VmRSS"].split()[0]) << 10,
        files=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        own_files=len(own),
        own_bytes=sum(own),
        delta_files=len(list((out / "_delta_log").glob("*"))),
    )


def _scrape(command: Sequence[str | Path], directory: Path) -> None:
    """Appends the metrics of the moment, as Prometheus would keep them."""
    address = command[list(command).index("--metrics") + 1]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as response:
        lines = response.read().decode().splitlines()
    with (directory / "metrics.txt").open("a") as file:
        file.write(f"# at {time.time():.0f}\n")
        file.writelines(f"{line}\n" for line in lines if not line.startswith("#"))


def _lost(out: Path, rows: Row, total: int) -> Iterator[str]:
    """Yields rows that are missing, there twice, or have an outcome that their kind can't have."""
    table = ds.dataset(out, format="parquet").to_table(columns=["row", "id", "url", "status", "error"])
    numbers = table["row"].combine_chunks()
    if (len(numbers), distinct := pc.count_distinct(numbers).as_py()) != (total, total):
        yield f"{len(numbers)} rows in the results, {distinct} of them different, of {total}"
    wrong: Counter[str] = Counter()
    columns = (table[name].to_pylist() for name in ("row", "id", "url", "status", "error"))
    for row, identifier, url, status, error in zip(*columns, strict=True):
        kind = rows.kind(row)
        if url != rows.url(row) or int(identifier) != row:
            wrong[f"row {row} has {url} and {identifier}"] += 1
        elif (status, error) not in kind.outcomes | BUSY:
            wrong[f"{kind.path} has {status}, {error}"] += 1
    for what, times in wrong.most_common(20):
        yield f"{what}: {times} rows"


def _growth(samples: Sequence[Sample], seconds: float) -> Iterator[str]:
    """Yields what grew after its first thirtieth of the time: a minute."""
    minute = seconds / MINUTES
    for run in sorted({sample.run for sample in samples}):
        own = [sample for sample in samples if sample.run == run and sample.run_s > minute]
        early = [sample for sample in own if sample.run_s < 1.5 * minute]
        late = [sample for sample in own if sample.run_s > own[-1].run_s - minute / 2]
        if not early or own[-1].run_s < 2 * minute:
            continue
        for name, most in MOST_GROWTH.items():
            before, after = (median(getattr(sample, name) for sample in part) for part in (early, late))
            if after - before > most:
                yield f"run {run}: {name} grew from {before:,.0f} to {after:,.0f}"
    # These rise and fall with the commits in the log.
    window = int(2 * minute)
    for name, most in MOST_OWN_GROWTH.items():
        parts = samples[int(minute) :][:window], samples[-window:]
        before, after = (max(getattr(sample, name) for sample in part) for part in parts)
        if after - before > most:
            yield f"{name} grew from {before:,} to {after:,}"
    if (delta_files := max(sample.delta_files for sample in samples)) > MOST_DELTA_FILES:
        yield f"the Delta log had {delta_files} files"


def _unlogged(story: Story, log: Path) -> Iterator[str]:
    """Yields the kinds of faults that the log doesn't have."""
    done = Counter(event["event"] for event in story.events)
    text = log.read_text()
    kills, stops = (text.count(f'"event": "{event}"') for event in ("after_kill", "stall"))
    if kills != done["kill"]:
        yield f"the job was killed {done['kill']} times, and the log has {kills} events after_kill"
    if stops < done["stop"]:
        yield f"the job was stopped {done['stop']} times, and the log has {stops} events stall"


def _of_verify(out: Path) -> list[str]:
    return _of_command([HEADGATE, "verify", out])


def _of_command(command: list[str | Path]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"{command[1]} ended with {done.returncode}: {done.stderr.strip()}"]


if __name__ == "__main__":
    sys.exit(main())
