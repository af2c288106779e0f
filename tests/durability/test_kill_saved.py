"""`kill -9` of a job that saves bodies at any moment: each file is complete and has its row, with no others."""

import hashlib
import json
import random
import tarfile
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.killing import Moment, run_and_kill, watching
from support.results import table

ROWS = 4_000
KILLS = 8
SIZES = [0, 100, 5_000, 150_000, 400_000]
CONCURRENCY = 16


def size_of(row: int) -> int | None:
    """Returns the size of the body of a row, or `None` for a failed row, which has no file."""
    return None if row % 7 == 3 else SIZES[row % len(SIZES)]


def urls(server: str, directory: Path) -> Path:
    def path(row: int) -> str:
        size = size_of(row)
        if size is None:
            return "/status/404"
        return f"/{'encoded/gzip' if row % 4 == 1 else 'bytes'}/{size}?{row}"

    file = directory / "urls.txt"
    file.write_text("".join(f"{server}{path(row)}\n" for row in range(ROWS)))
    return file


def bodies(server: str) -> dict[int, str]:
    """Returns the checksum of each body by its length."""
    found = {}
    for size in SIZES:
        with urllib.request.urlopen(f"{server}/bytes/{size}") as response:  # noqa: S310 - our own server
            found[size] = hashlib.sha256(response.read()).hexdigest()
    return found


def saved(out: Path) -> dict[str, Path]:
    """Returns the files that are neither results nor records of the job."""
    files = (file for file in out.rglob("*") if file.is_file())
    named = {str(file.relative_to(out)): file for file in files}
    own = ("_headgate/", "_delta_log/")
    return {name: file for name, file in named.items() if not name.startswith(own) and "/" in name}


def half_files(out: Path, checksums: dict[int, str]) -> list[str]:
    """Returns saved files that differ from their rows."""
    wrong = []
    for name, file in saved(out).items():
        size = size_of(int(file.stem))
        if size is None or checksums[size] != hashlib.sha256(file.read_bytes()).hexdigest():
            wrong.append(name)
    return wrong


def rows_without_file(out: Path) -> list[str]:
    """Returns the paths in the results whose files do not exist."""
    listed = [
        path for part in out.glob("part-*.parquet") for path in pq.read_table(part, columns=["path"])[0].to_pylist()
    ]
    return [path for path in listed if path is not None and not (out / path).is_file()]


@pytest.mark.timeout(300)
def test_killed_at_any_instant_no_file_is_half_and_none_is_missing_or_left_over(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command: list[str | Path] = ["fetch", urls(server, tmp_path), "-o", out, "--save-to", "Files/{row}.{ext}"]
    command += ["-c", str(CONCURRENCY), "--commit-interval", "0.2", "--fail-on", "none"]
    checksums = bodies(server)
    chance = random.Random(7)  # noqa: S311 - no secret
    with watching(server) as watched:
        before = watched.settled_requests()
        for _ in range(KILLS):
            event = chance.choice(["run", "commit", "commit"])
            moment = Moment(
                "commit" if event == "commit" else "run", chance.uniform(0, 0.5 if event == "run" else 0.03)
            )
            run = run_and_kill(command, out, watched, moment, rows=ROWS)
            assert [] == half_files(out, checksums), run.stderr
            assert [] == rows_without_file(out), run.stderr
        last = run_and_kill(command, out, watched, None, rows=ROWS)
        requests = watched.settled_requests() - before
    assert 0 == last.code, last.stderr
    assert requests > ROWS, "kills came while it ran"

    found = table(out).select(["row", "status", "path", "sha256", "body"]).to_pylist()
    assert list(range(ROWS)) == [row["row"] for row in found]
    for row in found:
        size = size_of(row["row"])
        expected = (404, None, None) if size is None else (200, f"Files/{row['row']}.txt", checksums[size])
        assert expected == (row["status"], row["path"], row["sha256"])
    assert {row["path"] for row in found if row["path"]} == set(saved(out))
    assert [] == half_files(out, checksums)
    assert [] == list((out / "_headgate/tmp").iterdir())


def samples(out: Path) -> dict[str, dict[str, bytes]]:
    """Returns the members of all archives as WebDataset groups them: by the name before its first dot."""
    found: dict[str, dict[str, bytes]] = {}
    for archive in sorted(out.glob("*.tar")):
        with tarfile.open(archive) as members:
            for member in members:
                directory, _, name = member.name.rpartition("/")
                stem, _, extension = name.partition(".")
                sample = found.setdefault(f"{archive.name}/{directory}/{stem}", {})
                assert extension not in sample, member.name
                read = members.extractfile(member)
                assert read is not None
                sample[extension] = read.read()
    return found


@pytest.mark.timeout(300)
def test_killed_at_any_instant_no_archive_is_half_and_no_row_is_missing_or_there_twice(
    server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command: list[str | Path] = ["fetch", urls(server, tmp_path), "-o", out, "--save-to", "x/{row}.{ext}"]
    command += ["--save-format", "tar", "--part-size", "16MiB", "-c", str(CONCURRENCY), "--fail-on", "none"]
    checksums = bodies(server)
    chance = random.Random(8)  # noqa: S311 - no secret
    with watching(server) as watched:
        for _ in range(4):
            moment = Moment("commit", chance.uniform(0, 0.03))
            run = run_and_kill(command, out, watched, moment, rows=ROWS)
            samples(out)
            assert run.code is None, run.stderr
        last = run_and_kill(command, out, watched, None, rows=ROWS)
    assert 0 == last.code, last.stderr

    found = samples(out)
    rows = table(out).select(["row", "path", "sha256"]).to_pylist()
    assert list(range(ROWS)) == [row["row"] for row in rows]
    saved_rows = [row for row in rows if row["path"]]
    assert {row["path"].removesuffix(".txt") for row in saved_rows} == set(found)
    for row in saved_rows:
        sample = found[row["path"].removesuffix(".txt")]
        assert {"txt", "json"} == set(sample)
        size = size_of(row["row"])
        assert size is not None
        assert checksums[size] == hashlib.sha256(sample["txt"]).hexdigest() == row["sha256"]
        described = json.loads(sample["json"])
        assert (row["row"], row["sha256"]) == (described["row"], described["sha256"])
    assert [] == list((out / "_headgate/tmp").iterdir())
