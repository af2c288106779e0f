"""A job that can't succeed stops itself, and says why."""

import json
from pathlib import Path

import pytest

import headgate as package
from support.run import headgate, serving


def test_a_job_whose_rows_all_fail_ends_with_exit_code_4_and_resumes_after_the_repair(tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    with serving("--status", "403") as server:
        fetch = ("fetch", f"{server}/[1-5000]", "-o", out, "--fail-on", "4xx", "--summary", summary)
        done = headgate(*fetch, check=4)
        (error,) = done.errors()
        figures = json.loads(summary.read_text())
        assert error == figures["stopped_by"]
        assert "403" in error
        assert 1000 <= figures["failed"] < 5000
        assert f"and `headgate retry {out}` for the failed rows" in done.stderr
        assert headgate(*fetch, "-q", check=4).errors() == [json.loads(summary.read_text())["stopped_by"]]
        with pytest.raises(package.JobStopped) as raised:
            package.fetch(f"{server}/[1-5000]", out, fail_on="4xx", max_failures="100%", progress=False)
        assert raised.value.summary is not None
        assert str(raised.value) == raised.value.summary.stopped_by
        headgate(*fetch, "--max-failures", "never", check=3)
    assert 5000 == package.Job.open(out).status().failed
