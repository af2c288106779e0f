"""The job format: a job that an earlier version started is continued or refused, as docs/versions.md says.

`tests/data/job-format-N` has a job that Ctrl-C stopped after two of four rows. Anew, after a change of the format:

    headgate fetch urls.txt -o job --rate 1/s --retries 0 --commit-interval 0.1s
"""

import json
import re
import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import headgate as package
from support.documents import ROOT, text
from support.run import headgate

JOBS: Final = sorted((ROOT / "tests/data").glob("job-format-*"))


def number_of(job: Path) -> int:
    return int(job.name.rpartition("-")[2])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A copy of the job in the newest format, beside its input."""
    return shutil.copytree(max(JOBS, key=number_of), tmp_path / "copy") / "job"


def fetch(job: Path, *, check: int) -> list[str]:
    return headgate("fetch", job.parent / "urls.txt", "-o", job, "--retries", "0", check=check).errors()


def test_the_page_names_the_format_of_new_jobs_and_a_job_of_it_is_kept(job: Path) -> None:
    fetch(job.with_name("new"), check=3)
    written = json.loads((job.with_name("new") / "_headgate/job.json").read_text(encoding="utf-8"))["format_version"]
    stated = re.search(r"reads job format (\d+)\.", text("docs/versions.md"))
    assert stated
    assert [str(written)] * 2 == [stated[1], str(number_of(max(JOBS, key=number_of)))]


def test_a_job_with_the_same_format_is_continued(job: Path) -> None:
    assert (2, False) == (package.Job.open(job).status().done, package.Job.open(job).status().finished)
    fetch(job, check=3)
    assert [0, 1, 2, 3] == sorted(pa.table(package.Job.open(job).rows())["row"].to_pylist())
    headgate("retry", job, "--retries", "0", check=3)
    assert [2] * 4 == pa.table(package.Job.open(job).rows())["attempts"].to_pylist()


def contents(job: Path) -> dict[Path, bytes]:
    """Returns the files of a job but its lock."""
    return {path: path.read_bytes() for path in job.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize(("difference", "cause"), [(-1, "was written by an older"), (1, "was written by a newer")])
def test_a_job_with_another_format_is_refused_and_not_changed(job: Path, difference: int, cause: str) -> None:
    manifest = job / "_headgate/job.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content |= {"format_version": content["format_version"] + difference, "crc32": 0}
    manifest.write_text(json.dumps(content), encoding="utf-8")
    before = contents(job)
    refused = [fetch(job, check=2), *(headgate(verb, job, check=2).errors() for verb in ("retry", "status"))]
    assert all(cause in message for (message,) in refused)
    assert before == contents(job)
