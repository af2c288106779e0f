"""Responses take no more memory than the budget allows, and no time of other rows."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.cgroups import small_cgroup
from support.results import rows
from support.run import HEADGATE, LONGEST_S, headgate, serving, stats, wait_for

MEBIBYTE = 1024**2
BESIDE_BUDGET_BYTES = 100 * MEBIBYTE
"""The memory of a process without responses, with a margin for what its allocator keeps."""

FLOODS = [
    "continuation-flood",
    "empty-continuation-flood",
    "empty-data-flood",
    "ping-flood",
    "rapid-reset",
    "settings-flood",
    "window-update-flood",
    "header-bomb",
    "window-ignored",
]
"""Faults of the server that try to fill memory."""


def counted(tmp_path: Path, urls: list[str], budget: int, *flags: str) -> dict[str, Any]:
    """Returns the summary of a job that requests all URLs at the same time, within a budget in MiB."""
    source, summary = tmp_path / "urls.txt", tmp_path / "summary.json"
    source.write_text("".join(f"{url}\n" for url in urls))
    limits = ["-c", str(len(urls)), "--max-memory", f"{budget}MiB", *flags]
    done = headgate("fetch", source, "--format", "none", "--summary", summary, *limits)
    figures: dict[str, Any] = json.loads(summary.read_text())
    assert len(urls) == figures["rows"], done.stderr
    return figures


def mixed(hostile: list[str], others: list[str]) -> list[str]:
    """Returns the URLs with some harmless ones after each hostile one."""
    share = len(others) // len(hostile)
    return [url for at, each in enumerate(hostile) for url in (each, *others[at * share : (at + 1) * share])]


def test_brotli_windows_fit_the_memory_budget_and_delay_no_other_body(server: str, tmp_path: Path) -> None:
    bombs = [f"{server}/fault/brotli-window?{number}" for number in range(150)]
    others = [f"{server}/encoded/zstd/1000000?{number}" for number in range(150)]
    begun = time.monotonic()
    figures = counted(tmp_path, mixed(bombs, others), 128, "--timeout", "20")
    assert time.monotonic() - begun < LONGEST_S - 10
    # Each hostile body is bounded, and no other row pays for it.
    assert (len(others), {"body_too_large": len(bombs)}) == (figures["succeeded"], figures["errors"])
    assert figures["peak_rss_bytes"] <= 128 * MEBIBYTE + BESIDE_BUDGET_BYTES


def test_windows_within_windows_fit_the_budget(server: str, tmp_path: Path) -> None:
    figures = counted(tmp_path, [f"{server}/fault/zstd-windows?{number}" for number in range(40)], 64)
    assert figures["succeeded"] == 40, figures["errors"]
    assert figures["peak_rss_bytes"] <= 64 * MEBIBYTE + BESIDE_BUDGET_BYTES


def test_bodies_that_decode_to_nothing_delay_no_other_body(server: str, tmp_path: Path) -> None:
    timeout, largest = 2, 8_000_000
    hostile = [f"{server}/fault/deflated-nothing?{number}" for number in range(24)]
    # Small bodies are decoded at once. Large ones wait in one queue with the hostile ones, for longer than the timeout.
    kinds = ["gzip/1000"] * 100 + ["gzip/1000000"] * 20 + [f"zstd/{largest}"] * 3
    others = [f"{server}/encoded/{kind}?{number}" for number, kind in enumerate(kinds)]
    source = tmp_path / "urls.txt"
    source.write_text("".join(f"{url}\n" for url in [*hostile, *others]))
    limits = ["-c", str(len(hostile + others)), "--timeout", str(timeout), "--max-body-size", str(largest)]
    begun = time.monotonic()
    headgate("fetch", source, "-o", tmp_path / "out", *limits)
    assert time.monotonic() - begun < LONGEST_S - 10
    outcomes = rows(tmp_path / "out")
    assert {"body_too_large", "timeout", None} >= {row["error"] for row in outcomes}
    assert [] == [row["url"] for row in outcomes if row["error"] and "/fault/" not in row["url"]]
    # The time of the row itself, without its wait for a thread.
    assert max(row["elapsed_us"] for row in outcomes) < (timeout + 5) * 1_000_000


def test_bodies_that_are_read_fit_the_budget(server: str, tmp_path: Path) -> None:
    figures = counted(tmp_path, [f"{server}/bytes/{15 * MEBIBYTE}?{number}" for number in range(50)], 64)
    assert figures["succeeded"] == 50, figures["errors"]
    assert figures["peak_rss_bytes"] <= 64 * MEBIBYTE + BESIDE_BUDGET_BYTES


def test_floods_of_frames_over_http2_take_no_memory(tmp_path: Path) -> None:
    with serving("--http2") as server:
        urls = [f"{server}/fault/h2-{flood}?{number}" for number in range(20) for flood in FLOODS]
        figures = counted(tmp_path, urls, 32, "--http2-prior-knowledge")
    assert {"protocol", "body_too_large"} >= set(figures["errors"])
    assert len(urls) == sum(figures["errors"].values())
    assert figures["peak_rss_bytes"] <= 32 * MEBIBYTE + BESIDE_BUDGET_BYTES


@pytest.mark.parametrize("path", ["/bytes/{}", "/chunked/{}"])
def test_a_body_larger_than_the_budget_takes_twice_its_size(path: str, server: str, tmp_path: Path) -> None:
    size = 200 * MEBIBYTE
    summary = tmp_path / "summary.json"
    limits = ["--max-body-size", str(size), "--max-memory", "32MiB"]
    headgate("fetch", f"{server}{path.format(size)}", "-o", tmp_path / "out", "--summary", summary, *limits, check=0)
    assert json.loads(summary.read_text())["peak_rss_bytes"] <= 32 * MEBIBYTE + 2 * size


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_no_row_pays_for_a_reader_that_is_late(encoding: str, tmp_path: Path) -> None:
    count = 24
    urls = tmp_path / "urls.txt"
    with serving() as server:
        bodies = [f"{server}/encoded/{encoding}/1000000?{number}\n" for number in range(count)]
        urls.write_text("".join([*bodies, f"{server}/fault/hang-before-headers\n"]))
        limits = ["-c", str(count + 1), "--max-memory", "2MiB", "--timeout", "4"]
        with subprocess.Popen([HEADGATE, "fetch", urls, "-o", "-", *limits], stdout=subprocess.PIPE) as process:
            # The request without a response has reached its deadline, and so have those that were sent before it.
            wait_for(lambda: stats(server)["requests"] > count and stats(server)["requests_in_progress"] == 0)
            printed, _ = process.communicate(timeout=LONGEST_S)
    failed = [json.loads(line)["row"] for line in printed.splitlines() if json.loads(line)["error"] is not None]
    assert [count] == failed
    assert count + 1 == len(printed.splitlines())


def test_a_job_with_defaults_fits_a_small_container(server: str, tmp_path: Path) -> None:
    url, summary = f"{server}/bytes/1000000?[1-300]", tmp_path / "summary.json"
    with small_cgroup(256 * MEBIBYTE) as cgroup:
        argv = cgroup.command(HEADGATE, "fetch", url, "-o", tmp_path / "out", "--summary", summary, "-c", "256")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    # The kernel kills a process that needs more: the code would be -9.
    assert done.returncode == 0, done.stderr
    figures = json.loads(summary.read_text())
    assert figures["succeeded"] == 300, figures["errors"]
    assert figures["peak_rss_bytes"] <= 64 * MEBIBYTE + BESIDE_BUDGET_BYTES


def test_a_budget_beyond_the_memory_of_the_machine_is_refused() -> None:
    too_much = 2**60
    done = headgate("fetch", "http://127.0.0.1:9/", "--format", "none", "--max-memory", str(too_much), check=2)
    assert f"error: --max-memory {too_much}: with 8 KiB for each request in flight" in done.stderr
    assert "; lower --max-memory, or allow the process more memory" in done.stderr
