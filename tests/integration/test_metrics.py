"""`--metrics` serves what a run does to Prometheus, and costs the run nothing if a reader misbehaves."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

import headgate as package
from headgate.jobs._local_server import MAX_READERS
from support.documents import text as document
from support.run import LONGEST_S, get, headgate, started, wait_for

ROWS: Final = 60


def test_the_metrics_of_a_running_job_pass_promtool_and_count_rows(server: str, tmp_path: Path) -> None:
    urls = [f"{server}/status/{200 if row % 3 else 503}?{row}" for row in range(ROWS)]
    (tmp_path / "urls.txt").write_text("\n".join([*urls, f"{server}/fault/hang-before-headers"]))
    fetch = ("fetch", tmp_path / "urls.txt", "-o", tmp_path / "out", "--retries", "0", "--shutdown-timeout", "0")
    with started(*fetch, "--metrics", "127.0.0.1:0") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "metrics: " in line)
        url = line.rpartition("metrics: ")[2].strip()
        wait_for(lambda: samples(get(url)).get('headgate_rows_total{outcome="failed"}') == ROWS / 3)
        wait_for(lambda: samples(get(url)).get('headgate_rows_total{outcome="succeeded"}') == ROWS * 2 / 3)
        text = get(url)
        found = samples(text)
        assert ROWS * 2 / 3 == found['headgate_responses_total{code="200"}']
        assert ROWS / 3 == found['headgate_errors_total{kind="status:503"}']
        assert (1, 1) == (found["headgate_requests_in_flight"], found['headgate_phase{phase="running"}'])
        assert ROWS == found["headgate_request_duration_seconds_count"]
        assert ROWS == found['headgate_request_duration_seconds_bucket{le="+Inf"}']
        assert (ROWS + 1, ROWS) == (found["headgate_job_rows"], found["headgate_job_rows_done"])
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url.removesuffix("metrics"))

        # Readers that send nothing, or one byte, delay others by no more than the time that each of them gets.
        host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        with ExitStack() as slow:
            for reader in range(MAX_READERS + 2):
                connection = slow.enter_context(socket.create_connection((host, int(port))))
                connection.sendall(b"G" * (reader % 2))
            assert samples(get(url))

        refused = headgate("fetch", f"{server}/1", "-o", tmp_path / "two", "--metrics", f"{host}:{port}", check=2)
        assert [f"--metrics: can't listen at {host}:{port}: Address already in use"] == refused.errors()
        assert not (tmp_path / "two").exists()
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not installed: apt install prometheus")
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        assert (0, "") == (checked.returncode, checked.stderr), checked.stdout


def test_the_rules_for_alerts_pass_promtool(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    (rules,) = re.findall(r"^```yaml\n(.*?)^```$", document("docs/operations.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.yml").write_text(rules)
    checked = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yml"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (0, "") == (checked.returncode, checked.stderr), checked.stdout


def test_prometheus_scrapes_a_running_job(server: str, tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("prometheus is not installed: apt install prometheus")
    fetch = ("fetch", f"{server}/fault/hang-before-headers?[1-3]", "-o", tmp_path / "out", "--shutdown-timeout", "0")
    with started(*fetch, "--metrics", "127.0.0.1:0") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "metrics: " in line)
        target = line.rpartition("http://")[2].strip().removesuffix("/metrics")
        config = tmp_path / "prometheus.yml"
        config.write_text(
            "scrape_configs: [{job_name: headgate, scrape_interval: 1s, static_configs: [{targets: ['"
            + target
            + "']}]}]"
        )
        port = free_port()
        flags = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'db'}")
        with subprocess.Popen(
            [prometheus, *flags, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as scraping:
            try:
                wait_for(lambda: queried(port, "headgate_requests_in_flight") == "3")
                assert "1" == queried(port, "up")
            finally:
                scraping.terminate()


def test_the_port_is_free_when_a_run_has_ended(server: str, tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    package.fetch(f"{server}/[1-3]", tmp_path / "one", metrics=metrics)
    package.fetch(f"{server}/[1-3]", tmp_path / "two", metrics=metrics)
    for out in ("three", "four"):
        package.start(f"{server}/[1-3]", tmp_path / out, metrics=metrics).wait()
    with pytest.raises(package.InputError):
        package.fetch(tmp_path / "missing.csv", tmp_path / "five", metrics=metrics)
    package.fetch(f"{server}/[1-3]", tmp_path / "five", metrics=metrics)


def test_an_address_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    for wrong in ("9464", "127.0.0.1:", ":9464", "127.0.0.1:70000"):
        refused = headgate("fetch", "http://127.0.0.1:1/", "-o", tmp_path / "out", "--metrics", wrong, check=2)
        assert [f"--metrics must be HOST:PORT, such as 127.0.0.1:9464, not {wrong!r}"] == refused.errors()
    with pytest.raises(package.UsageError, match="metrics must be HOST:PORT"):
        package.fetch("http://127.0.0.1:1/", tmp_path / "out", metrics="9464")


def samples(text: str) -> dict[str, float]:
    """Reads the text format of Prometheus."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def queried(port: int, query: str) -> str | None:
    """The value that Prometheus has now; `None`: it has none yet."""
    try:
        found = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?query={query}"))["data"]["result"]
    except OSError:
        time.sleep(0.1)
        return None
    return found[0]["value"][1] if found else None
