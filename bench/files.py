"""Measures saving bodies as files, compared with aria2c and curl --parallel: time, CPU, memory, and correct content.

The server is nginx on one core, which sends files from memory; the clients may use both cores. Each run saves all
files into a separate directory, which is checked. All are removed at the end: ext4 without a journal allocates a new
file more slowly, the more were removed in the last minute. The findings go to standard output, each run as it
ends to standard error. Exit code 1: a file was wrong.
"""

import argparse
import hashlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness import command, environment, nginx, processes, tables
from harness.findings import Finding
from harness.servers import ServerError

_CLIENTS: Final = ("headgate", "aria2c", "curl")
_SIZES: Final = (20_000, 500_000)
_CONTENTS: Final = 500
"""The number of different files; each has several names, so that the server reads from memory."""
_LONGEST_S: Final = 1800.0
_HERE: Final = "127.0.0.1"
_LEAST_SHARE: Final = 1.0

_CONFIG: Final = """\
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache max={files} inactive=1h;
    open_file_cache_valid 1h;
    types {{ image/jpeg jpg; }}
    server {{
        listen {here}:{port} backlog=65535;
        root {directory}/served;
    }}"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The figures of a client for all files."""

    client: str
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    wrong: str


class Served:
    """The files of the server by name, with the checksums of their contents."""

    def __init__(self, directory: Path, count: int) -> None:
        """Writes the files, whose contents are the same in every run."""
        draw = random.Random(0)  # noqa: S311 - contents of files
        served = directory / "served"
        served.mkdir()
        self.sums: dict[str, str] = {}
        contents = min(count, _CONTENTS)
        for number in range(contents):
            body = draw.randbytes(draw.randint(*_SIZES))
            self.sums[self._write(served, number, body)] = hashlib.sha256(body).hexdigest()
        for number in range(contents, count):
            name, same = f"{number}.jpg", f"{number % contents}.jpg"
            (served / name).hardlink_to(served / same)
            self.sums[name] = self.sums[same]

    def _write(self, served: Path, number: int, body: bytes) -> str:
        name = f"{number}.jpg"
        (served / name).write_bytes(body)
        return name

    def mistake(self, directory: Path) -> str:
        """Returns what is wrong with the saved files; empty if they are right."""
        for name, expected in self.sums.items():
            try:
                found = hashlib.sha256((directory / name).read_bytes()).hexdigest()
            except FileNotFoundError:
                return f"{name} is missing"
            if found != expected:
                return f"{name} has another content"
        return ""


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerError(f"{name} is what headgate is measured beside, and there is none; run: apt install {package}")
    return found


def _argv(client: str, arguments: argparse.Namespace, url: str, served: Served, place: Path) -> list[str]:
    """Returns the command that saves all files below `place`, and writes the list that it reads."""
    listed = place.with_suffix(".list")
    at_once = str(arguments.concurrency)
    if client == "headgate":
        source = place.with_suffix(".parquet")
        names = [*served.sums]
        rows = {"url": [f"{url}/{name}" for name in names], "id": [name.removesuffix(".jpg") for name in names]}
        pq.write_table(pa.table(rows | {"sum": [*served.sums.values()]}), source)
        named = ["--save-to", "files/{id}.{ext}", "--checksum-column", "sum"]
        return [str(arguments.headgate), "fetch", str(source), "-o", str(place), "-c", at_once, "-q", *named]
    if client == "aria2c":
        line = "{url}/{name}\n  out={name}\n  checksum=sha-256={sum}\n"
        listed.write_text("".join(line.format(url=url, name=name, sum=each) for name, each in served.sums.items()))
        fixed = ["-q", "-x1", "-s1", "--file-allocation=none", "--auto-file-renaming=false", "--deferred-input=true"]
        return [_program("aria2c", "aria2"), "--no-conf", *fixed, f"-j{at_once}", f"-d{place / 'files'}", f"-i{listed}"]
    line = 'url = "{url}/{name}"\noutput = "{place}/files/{name}"\n'
    listed.write_text("".join(line.format(url=url, name=name, place=place) for name in served.sums))
    return [
        _program("curl", "curl"),
        "-q",
        "-s",
        "-S",
        "-Z",
        "--parallel-max",
        at_once,
        "--create-dirs",
        "-K",
        str(listed),
    ]


def _measured(client: str, arguments: argparse.Namespace, url: str, served: Served, place: Path) -> Made:
    argv = _argv(client, arguments, url, served, place)
    ended = processes.run(argv, core=None, longest_s=_LONGEST_S)
    wrong = served.mistake(place / "files")
    if ended.code != 0:
        wrong = f"it ended with {ended.code}: {ended.stderr.strip()[:200]}"
    made = Made(
        client=client,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        peak_rss_bytes=ended.peak_rss_bytes,
        wrong=f"{client}: {wrong}" if wrong else "",
    )
    print(
        f"{client:9} {made.wall_s:7.1f} s  {made.cpu_s:7.1f} s of CPU {tables.mb(made.peak_rss_bytes):6.0f} MB {wrong}",
        file=sys.stderr,
    )
    return made


def _files(arguments: argparse.Namespace) -> Finding:
    core = command.two_cores("saving files").server
    made: list[Made] = []
    with tempfile.TemporaryDirectory(prefix="headgate-bench-files-", dir=arguments.directory) as name:
        directory, port = Path(name), nginx.free_port()
        served = Served(directory, arguments.files)
        http = _CONFIG.format(directory=directory, here=_HERE, port=port, files=arguments.files)
        with nginx.configured(nginx.framed(http, directory), directory, port, core):
            for round_ in range(arguments.rounds):
                # Each client is the first of a round equally often.
                start = round_ % len(_CLIENTS)
                for client in (*_CLIENTS[start:], *_CLIENTS[:start]):
                    place = directory / f"{client}-{round_}"
                    made.append(_measured(client, arguments, f"http://{_HERE}:{port}", served, place))
    return Finding(
        title=f"{arguments.files:,} files of {_SIZES[0] // 1000} to {_SIZES[1] // 1000} kB",
        targets=[_beside(client, made) for client in _CLIENTS[1:]],
        text=tables.table(["client", "seconds", "CPU seconds", "peak MB"], [_row(client, made) for client in _CLIENTS]),
        raw=[{field: getattr(one, field) for field in Made.__slots__} for one in made],
        wrong=[one.wrong for one in made if one.wrong],
    )


def _beside(client: str, made: Sequence[Made]) -> tables.Target:
    """Returns the target for the median ratio of the client's time to headgate's in the same round."""
    ours, theirs = ([one.wall_s for one in made if one.client == each] for each in ("headgate", client))
    ratio = tables.median(their / our for our, their in zip(ours, theirs, strict=True))
    return tables.at_least(f"time, {client} / headgate", ratio, _LEAST_SHARE)


def _row(client: str, made: Sequence[Made]) -> list[str]:
    own = [one for one in made if one.client == client]
    figures = (("wall_s", 1.0), ("cpu_s", 1.0), ("peak_rss_bytes", 1e-6))
    return [client, *(f"{(tables.median(getattr(one, name) for one in own) or 0.0) * by:.1f}" for name, by in figures)]


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about = environment.machine()
    for name, package in (("curl", "curl"), ("aria2c", "aria2")):
        try:
            printed = subprocess.run([_program(name, package), "--version"], capture_output=True, text=True, check=True)
        except ServerError as error:
            return command.refuse(str(error))
        found = re.search(r"\d+\.\d+\.\d+", printed.stdout)
        about[name] = found[0] if found else "?"
    asked = {"files": partial(_files, arguments)}
    return command.run(asked, about, title="Files", caveats=_caveats, keep_as="files-" if arguments.save else None)


def _caveats(about: Mapping[str, Any]) -> str:
    return (
        f"{command.TRUST_RATIOS}\n"
        f"- curl {about['curl']} writes and checks nothing; aria2c {about['aria2c']} and headgate compare checksums;"
        " headgate commits and syncs, and can be resumed.\n"
        f"- One machine of {about['cores']} cores, of which nginx has one and the clients both; its load was "
        f"{about['load_before']:.1f} before the start. The disk takes part in all figures."
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    command.add_headgate(parser)
    parser.add_argument("--files", type=int, default=50_000, help="of a run (default: 50,000)")
    parser.add_argument("--concurrency", type=int, default=256, help="in flight (default: 256)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: 3)")
    parser.add_argument("--directory", type=Path, help="where files are saved (default: where temporary files are)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
