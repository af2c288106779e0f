"""Reads the commit log of a job, as far as an observer needs it; the ledger checks the results."""

import contextlib
import json
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NO_COMMIT: Final = "0" * 20
_LOOK_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Commit:
    """One file of the log.

    Attributes:
        path: The file.
        record: Its content.
    """

    path: Path
    record: dict[str, Any]

    @property
    def done(self) -> int:
        """Returns how many rows are done with it."""
        done: int = self.record["done"]
        return done

    @property
    def written_s(self) -> float:
        """Returns when it was written, in seconds since the epoch."""
        return self.path.stat().st_mtime

    def is_settled(self, directory: Path) -> bool:
        """Returns whether the parts that it adds exist at their paths and those that it removes are gone."""
        return all((directory / part["name"]).exists() for part in self.record["adds"]) and not any(
            (directory / name).exists() for name in self.record["removes"]
        )


def log_of(directory: Path) -> Path:
    """Returns the directory of the commits of a job."""
    return directory / "_headgate" / "log"


def rewrite(path: Path, record: dict[str, Any]) -> None:
    """Replaces the record of a commit, and its checksum."""
    version: int = json.loads(path.read_text())["format_version"]
    text = json.dumps(record)
    checksum = zlib.crc32(version.to_bytes(4, "little") + text.encode())
    path.write_text(f'{{"format_version": {version}, "crc32": {checksum}, "record": {text}}}\n')


def newest_name(directory: Path) -> str:
    """Returns the name of the newest commit without its extension, or `NO_COMMIT`."""
    return max((path.stem for path in log_of(directory).glob("*.json")), default=NO_COMMIT)


def newest(directory: Path) -> Commit | None:
    """Returns the newest commit."""
    while (name := newest_name(directory)) != NO_COMMIT:
        path = log_of(directory) / f"{name}.json"
        with contextlib.suppress(FileNotFoundError):  # a newer commit came meanwhile and removed this one
            return Commit(path, json.loads(path.read_text())["record"])
    return None


def done(directory: Path) -> int:
    """Returns how many rows are done."""
    commit = newest(directory)
    return 0 if commit is None else commit.done


def wait_for(number: int, directory: Path, process: subprocess.Popen[str]) -> None:
    """Waits until the job has made this many commits; its process must not end before."""
    while (newest := newest_name(directory)) < f"{number:020}":
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(_LOOK_S)
            raise AssertionError(f"it has ended with {code} at commit {newest}: {process.communicate()[1]}")
