"""Bits of a finished job flip, one after the other: each is noticed, or changes nothing that a reader gets."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import headgate
from support.origin import changing
from support.results import Format

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("form", ["parquet", "ndjson"])]

ALL_BITS = range(8)
LARGE_STEP = 97
LARGE_ROWS: dict[Format, int] = {"parquet": 20_000, "ndjson": 1_500}
"""Some megabytes, before Parquet encodes repeated texts."""


def unneeded(path: Path) -> bool:
    """Returns whether a file is not read for the status or the rows: the Delta log, and the series of the report."""
    return path.parent.name == "_delta_log" or path.name == "series.ndjson"


def given(out: Path) -> tuple[headgate.JobStatus, pa.Table]:
    """Returns everything that a user gets of a job."""
    job = headgate.Job(str(out))
    return job.status(), pa.table(job.rows())


def unnoticed_flips(out: Path, *, step: int, bits: Iterable[int]) -> int:
    """Flips bits of every `step`-th byte; returns how many flips went unnoticed, all of which must change nothing."""
    before = given(out)
    unnoticed = 0
    for path in [path for path in out.rglob("*") if path.is_file() and not unneeded(path)]:
        content = path.read_bytes()
        with path.open("r+b", buffering=0) as file:
            for at in range(0, len(content), step):
                for bit in bits:
                    os.pwrite(file.fileno(), bytes([content[at] ^ 1 << bit]), at)
                    try:
                        now = given(out)
                    except headgate.OutputError as error:
                        assert path.name in str(error)  # noqa: PT017 - most flips raise, not all
                    else:
                        assert before == now, f"bit {bit} of byte {at} of {path}"
                        unnoticed += 1
                os.pwrite(file.fileno(), content[at : at + 1], at)
    assert before == given(out)
    return unnoticed


def test_each_bit_of_a_small_job_is_noticed_or_changes_nothing_that_is_given_out(form: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses["/2"] = 503
        headgate.fetch(f"{origin.url}/[1-3]", out, format=form)
    # Only the content of the lock and the ends of two lines do not count.
    most = 8 * (2 + (out / "_headgate" / "lock").stat().st_size)
    assert unnoticed_flips(out, step=1, bits=ALL_BITS) <= most


def test_every_97th_byte_of_a_large_job_is_noticed_or_changes_nothing_that_is_given_out(
    form: Format, server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    urls = tmp_path / "urls.txt"
    rows = range(LARGE_ROWS[form])
    urls.write_text("".join(f"{server}/bytes/{row % 3_001}?{row:x}{row * 7_919:x}\n" for row in rows))
    headgate.fetch(urls, out, format=form, part_size=200_000)
    assert sum(part.stat().st_size for part in out.glob("*.*")) > 500_000
    assert unnoticed_flips(out, step=LARGE_STEP, bits=[3]) <= 2 + (out / "_headgate" / "lock").stat().st_size
