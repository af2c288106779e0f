"""The commit log of a job, as far as an observer needs it. Never a proof of results: that is the ledger's."""

import contextlib
import json
import subprocess
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
        record: What it says.
    """

    path: Path
    record: dict[str, Any]

    @property
    def done(self) -> int:
        """Rows done with it."""
        done: int = self.record["done"]
        return done

    @property
    def written_s(self) -> float:
        """When it was written, in seconds since the epoch."""
        return self.path.stat().st_mtime

    def is_settled(self, directory: Path) -> bool:
        """Whether the parts that it adds are in place and those that it removes are gone."""
        return all((directory / part["name"]).exists() for part in self.record["adds"]) and not any(
            (directory / name).exists() for name in self.record["removes"]
        )


def log_of(directory: Path) -> Path:
    """Where the commits of a job are."""
    return directory / "_headgate" / "log"


def newest_name(directory: Path) -> str:
    """Of the newest commit, without its ending; `NO_COMMIT` where there is none."""
    return max((path.stem for path in log_of(directory).glob("*.json")), default=NO_COMMIT)


def newest(directory: Path) -> Commit | None:
    """The newest commit; it says how far the job is."""
    while (name := newest_name(directory)) != NO_COMMIT:
        path = log_of(directory) / f"{name}.json"
        with contextlib.suppress(FileNotFoundError):  # a newer one came meanwhile, and this one was removed
            return Commit(path, json.loads(path.read_text())["record"])
    return None


def done(directory: Path) -> int:
    """Rows that are done."""
    commit = newest(directory)
    return 0 if commit is None else commit.done


def wait_for(number: int, directory: Path, process: subprocess.Popen[str]) -> None:
    """Returns when the job has made so many commits; its process must not end before."""
    while (newest := newest_name(directory)) < f"{number:020}":
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(_LOOK_S)
            raise AssertionError(f"it has ended with {code} at commit {newest}: {process.communicate()[1]}")
