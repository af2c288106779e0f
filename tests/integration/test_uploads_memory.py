"""Bodies that are sent from files, or while they are made, take no memory."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.receiver import receiving
from support.run import LONGEST_S

MEBIBYTE: Final = 1 << 20
BODY_BYTES: Final = 150 * MEBIBYTE

_PROGRAM: Final = """
import asyncio, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import headgate

kind, base_url, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

def made(count, size):
    return (b"x" * size for _ in range(count))

async def made_async(count, size):
    for _ in range(count):
        yield b"x" * size

def arguments(path, share):
    return {
        "path": {"content": path},
        "file": {"content": path.open("rb")},
        "form": {"files": {"a": path, "b": ("c", path.open("rb"), None, {"X-A": "1"})}, "data": {"d": "e"}},
        "form with a stream": {"files": {"a": path, "b": made(10 * share, 65_536)}},
        "pieces of 64 KiB": {"content": made(2400 * share, 65_536)},
        "pieces of 1 MiB": {"content": made(150 * share, 1 << 20)},
        "pieces of 100 bytes": {"content": made(20_000 * share, 100)},
        "asynchronous pieces": {"content": made_async(2400 * share, 65_536)},
    }[kind]

async def main(begin):
    async with headgate.AsyncClient(base_url=base_url, timeout=120) as client:
        for share in (0, 1):
            before = begin()
            given = arguments(path if share else path.with_suffix(".small"), share)
            (await client.post("/drain", **given)).raise_for_status()
        print(peak() - before)

def main_of_threads(begin):
    with headgate.Client(base_url=base_url, timeout=120) as client:
        for share in (0, 1):
            before = begin()
            given = arguments(path if share else path.with_suffix(".small"), share)
            client.post("/drain", **given).raise_for_status()
        print(peak() - before)

if kind == "asynchronous pieces":
    asyncio.run(main(peak))
else:
    main_of_threads(peak)
"""


@pytest.mark.parametrize(
    "kind",
    [
        "path",
        "file",
        "form",
        "form with a stream",
        "pieces of 64 KiB",
        "pieces of 1 MiB",
        "pieces of 100 bytes",
        "asynchronous pieces",
    ],
)
def test_a_body_of_150_mib_takes_less_than_5_mib(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(BODY_BYTES)
    path.with_suffix(".small").write_bytes(b"x")
    with receiving() as receiver:
        command = [sys.executable, "-c", _PROGRAM, kind, receiver.url, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LONGEST_S, check=False)
        assert done.returncode == 0, done.stderr
        assert receiver.last.is_complete
        assert receiver.last.body_bytes >= (2_000_000 if kind == "pieces of 100 bytes" else BODY_BYTES)
    assert int(done.stdout) < 5 * MEBIBYTE
