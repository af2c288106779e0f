"""The installed command."""

import contextlib
import io
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from headgate import Summary
from support.run import HEADGATE, LONGEST_S, get, headgate, printed_by, serving, stats

# Each takes as long to import as everything else that a message about the command line needs.
SLOW = {"asyncio", "email", "http", "importlib.metadata", "json", "multiprocessing", "pyarrow", "rich", "socket", "ssl"}


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["fetch", "-h"], ["fetch", "--help"], ["help", "retries"]]
)
def test_it_prints_without_importing_slow_modules(arguments: list[str]) -> None:
    done = subprocess.run(
        [HEADGATE, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "headgate.cli" in imported
    assert imported & SLOW == set()


def test_its_version_is_that_of_the_package() -> None:
    assert headgate("--version", check=0).stdout.startswith(f"headgate {version('headgate')} (")


def test_a_closed_pipe_ends_it_as_sigpipe_ends_other_programs_without_a_word() -> None:
    with subprocess.Popen([HEADGATE, "fetch", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(LONGEST_S) == 141
        assert process.stderr.read() == b""


def test_the_summary_holds_what_was_promised(server: str, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "s.json"
    headgate("fetch", f"{server}/status/{{200,404,503}}", "-o", out, "--summary", file, check=3)
    figures = json.loads(file.read_text())
    assert ({"200": 1, "404": 1}, {"status:503": 1}) == (figures["statuses"], figures["errors"])
    summary = Summary.from_json(file.read_text())
    assert (3, 2, 1) == (summary.rows, summary.succeeded, summary.failed)
    assert "the server responded with 503 Service Unavailable" == summary.error_examples["status:503"].message
    assert str(out) == summary.output
    assert 0 < summary.latency_us.p50 <= summary.latency_us.p90 <= summary.latency_us.p99 <= summary.latency_us.max
    assert summary.peak_rss_bytes > 1_000_000
    assert summary.cpu_s > 0
    assert summary.requests_per_s > 0
    assert summary.bottleneck.text


def test_the_summary_on_standard_output_is_all_that_is_there(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = headgate("fetch", f"{server}/[1-3]", "-o", "out", "--as-json", check=0)
    assert (3, "out") == (json.loads(done.stdout)["succeeded"], json.loads(done.stdout)["output"])
    assert "done: 3 rows" in done.stderr
    none = headgate("fetch", f"{server}/[1-3]", "--format", "none", "--as-json", "-q", check=0)
    assert (3, "") == (json.loads(none.stdout)["succeeded"], none.stderr)
    again = headgate("retry", "out", "--as-json", check=0)
    assert 0 == json.loads(again.stdout)["rows"]
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_a_summary_that_cannot_be_written_to_standard_output_is_an_error(server: str, tmp_path: Path) -> None:
    command: list[str | Path] = [HEADGATE, "fetch", f"{server}/1", "-o", tmp_path / "out", "-q", "--as-json"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LONGEST_S)
    assert (1, "error: --summary: can't write to standard output: No space left on device\n") == (
        done.returncode,
        done.stderr,
    )


def test_the_memory_is_that_of_the_command_and_not_of_its_parent(server: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    command = [str(HEADGATE), "fetch", f"{server}/1", "-o", str(tmp_path / "out"), "-q", "--summary", str(file)]
    held = 300_000_000
    printed_by(f"import subprocess; held = b'x' * {held}; subprocess.run({command}, check=True)", tmp_path)
    assert Summary.from_json(file.read_text()).peak_rss_bytes < held / 2


def test_the_report_goes_to_standard_error(server: str, tmp_path: Path) -> None:
    done = headgate("fetch", f"{server}/[1-10]", "-o", tmp_path / "out", check=0)
    assert done.stdout == ""
    assert "done: 10 rows" in done.stderr
    assert f"headgate show {tmp_path / 'out'}" in done.stderr


@pytest.mark.parametrize(("expected", "output"), [(False, "-"), (True, "out")])
def test_a_block_is_drawn_only_where_no_rows_go_to_standard_output(
    expected: bool, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    terminal, theirs = pty.openpty()
    with serving("--delay", "0.5") as server, os.fdopen(terminal, "rb", buffering=0) as screen:
        command: list[str | Path] = [HEADGATE, "fetch", f"{server}/1", "-o", output]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=theirs, timeout=LONGEST_S)
        os.close(theirs)
        drawn = b"".join(pieces(screen)).decode()
    assert "done: 1 row in" in drawn
    assert expected == ("\x1b[" in drawn)


def pieces(screen: io.FileIO) -> Iterator[bytes]:
    """Returns what was written to a terminal that no process writes to any more; reading its end is an error."""
    with contextlib.suppress(OSError):
        while piece := screen.read(65_536):
            yield piece


def test_quiet_says_nothing(server: str, tmp_path: Path) -> None:
    done = headgate("fetch", f"{server}/[1-10]", "-o", tmp_path / "out", "-q", check=0)
    assert ("", "") == (done.stdout, done.stderr)


def test_quiet_prints_one_line_if_rows_failed(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = headgate("fetch", f"{server}/{{1,status/503,status/404}}", "-o", out, "-q", "--retries", "0", check=3)
    assert ("", f"1 of 3 rows failed (status:503 1): headgate retry {out}\n") == (done.stdout, done.stderr)


def test_insecure_is_loud(server: str, tmp_path: Path) -> None:
    done = headgate("fetch", f"{server}/[1-2]", "-o", tmp_path / "out", "-q", "--insecure", check=0)
    assert done.stderr.startswith("WARNING: --insecure: certificates are not verified")


def test_insecure_is_noted_in_the_summary(server: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    done = headgate("fetch", f"{server}/[1-2]", "-o", tmp_path / "out", "--insecure", "--summary", file, check=0)
    note = "certificates were not verified (--insecure): anyone on the network path could have read and changed all of this"  # noqa: E501
    assert f"note: {note}" in done.stderr.splitlines()
    assert note in json.loads(file.read_text())["notes"]


def test_never_more_in_flight_than_the_concurrency(tmp_path: Path) -> None:
    with serving("--delay", "0..0.01") as server:
        headgate("fetch", f"{server}/[1-2000]", "-o", tmp_path / "out", "-c", "37", check=0)
        seen = stats(server)
    assert (2000, 37) == (seen["requests"], seen["max_requests_in_progress"])


def test_the_bottleneck_is_named(tmp_path: Path) -> None:
    with serving("--delay", "0.2") as server:
        done = headgate("fetch", f"{server}/[1-60]", "-o", tmp_path / "out", "-c", "10", check=0)
    assert "bottleneck: concurrency. 10 requests in flight at a mean of " in done.stderr
    assert "raise --concurrency" in done.stderr


def test_show_prints_the_first_rows(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-20]", "-o", out, check=0)
    shown = headgate("show", out, "-n", "3", "--columns", "row,status,body", check=0).stdout.splitlines()
    assert ["row", "status", "body"] == shown[0].split()
    assert [["200", "Hello,", "World!"]] * 3 == [line.split()[1:] for line in shown[2:5]]
    assert shown[5].startswith("3 of 20 rows")


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_show_says_alike_of_all_formats_that_these_are_all_rows(form: str, server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-3]", "-o", out, "--format", form, check=0)
    assert headgate("show", out, "-n", "3", check=0).stdout.splitlines()[-1].startswith("all 3 rows")
    assert not headgate("show", out, "-n", "2", check=0).stdout.splitlines()[-1].startswith("all")


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_show_prints_the_failed_rows_alone_and_why_they_failed(form: str, server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    urls = f"{server}/{{a,status/503,b,status/404,c,status/500}}"
    headgate("fetch", urls, "-o", out, "--format", form, check=3)
    header, _, *lines = headgate("show", out, "--failed", check=0).stdout.splitlines()
    assert ["row", "status", "error", "error_message", "url"] == header.split()
    assert [["1", "503", "status:503"], ["5", "500", "status:500"]] == sorted(line.split()[:3] for line in lines[:2])
    assert lines[2].startswith("all 2 rows; also there, with --columns: method, ")
    one = headgate("show", out, "--failed", "-n", "1", "--columns", "url,row", check=0).stdout.splitlines()
    assert one[2].split() in ([f"{server}/status/503", "1"], [f"{server}/status/500", "5"])
    assert one[3].startswith("1 of 2 rows; ")


def test_show_says_that_no_row_has_failed(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", check=0)
    assert "no row has failed\n" == headgate("show", tmp_path / "out", "--failed", check=0).stdout


def test_show_names_a_missing_path(tmp_path: Path) -> None:
    done = headgate("show", tmp_path / "nothing", check=2)
    assert str(tmp_path / "nothing") in done.errors()[0]


def test_serve_responds_as_its_flags_say() -> None:
    with serving("--body-size", "1KiB", "--status", "201") as server:
        assert len(get(f"{server}/x")) == 1024
        assert stats(server)["responses"]["201"] == 1


def test_serve_says_that_its_port_is_taken(server: str) -> None:
    port = server.rpartition(":")[2]
    done = headgate("serve", "--port", port, check=2)
    assert port in done.errors()[0]


def test_the_demonstration_shows_everything(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    for _ in range(2):  # the second replaces the first
        done = headgate("demo", "--rows", "500", "-o", out, check=0)
        assert "done: 500 rows" in done.stderr
        assert "5 of 500 rows" in done.stdout
        assert "what to try next:" in done.stdout
