"""`headgate report` makes a page that a browser draws. It loads nothing, and executes nothing of servers and inputs."""

import json
import re
import shlex
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

import headgate as package
from support.chromium import Page, chromium
from support.run import LONGEST_S, get, headgate, serving, started, wait_for

HOSTS: Final = 10_000
PLOTS: Final = 6
HOSTILE: Final = (
    "</script><script>window.hacked = 1</script>",
    "http://\u202egro.elpmaxe\u202c/\u05d0\u05d1\u05d2",
    f"http://{'long' * 1000}/",
    "\"'><svg onload=window.hacked=1>",
    "<img src=x onerror='window.hacked = 1'>",
    "javascript:window.hacked=1",
    "<!--<script>",
)
IS_DRAWN: Final = """[...document.querySelectorAll(".uplot canvas")].filter((canvas) =>
    canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value)).length"""
IS_TOO_WIDE: Final = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with 10,000 hosts, failures of many kinds and hostile texts, in two runs and a retry."""
    directory = tmp_path_factory.mktemp("job")
    with serving("--host", "0.0.0.0") as server:  # noqa: S104 - each address of loopback is a host
        port = server.rpartition(":")[2]
        hosts = [f"127.{number // 250 // 250}.{number // 250 % 250}.{number % 250 + 1}" for number in range(HOSTS)]
        paths = [f"status/{(200, 200, 200, 200, 404, 429, 500, 503)[number % 8]}" for number in range(HOSTS)]
        urls = [f"http://{host}:{port}/{path}" for host, path in zip(hosts, paths, strict=True)]
        faults = [
            f"http://127.0.0.1:{port}/fault/{name}"
            for name in ("reset-mid-body", "garbage", "corrupt-gzip", "nul-in-header", "bad-version")
        ]
        closed = [f"http://{host}:1/" for host in hosts[:20]]
        (directory / "urls.txt").write_text("\n".join([*urls, *faults, *closed, *HOSTILE]) + "\n")
        fetch = ("fetch", directory / "urls.txt", "-o", directory / "out", "--retries", "0", "--rate", "5000/s")
        headgate(*fetch, "--max-rows", "2000", check=3)
        headgate(*fetch, check=3)
        headgate("retry", directory / "out", "--only", "connect", check=3)
    return directory / "out"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 320)])
def test_a_browser_draws_the_page_which_loads_and_executes_nothing(
    scheme: str, width: int, out: Path, browser: Page, tmp_path: Path
) -> None:
    done = headgate("report", out, "-o", tmp_path / "report.html", check=0)
    assert ("", "") == (done.stdout, done.stderr)
    url = (tmp_path / "report.html").as_uri()
    seen, wrong = len(browser.requested), len(browser.wrong)
    browser.show(url, width=width, scheme=scheme)
    wait_for(lambda: browser.value(IS_DRAWN) == PLOTS)
    browser.shoot(tmp_path / f"{scheme}-{width}.png")
    assert [] == browser.wrong[wrong:]
    assert {url, "data:,"} >= set(browser.requested[seen:])
    assert browser.value("window.hacked === undefined")
    assert not browser.value(IS_TOO_WIDE)
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")

    text = browser.value("document.body.innerText")
    assert "finished" in text
    for expected in (
        "status:503: 1,250 rows",
        "status:429: 1,250 rows",
        "404: 1,250",
        "10,020 hosts",
        "connect: 20 rows",
        "127.0.0.1:1",
    ):
        assert expected in text
    assert f"headgate retry {out}" in text
    # Each plot has a name, a sentence and a table.
    labels = browser.value("[...document.querySelectorAll('.plot')].map((plot) => plot.ariaLabel)")
    assert PLOTS == len([label for label in labels if re.search(r": .*\d", label)])
    assert browser.value(
        "[...document.querySelectorAll('figure details table')].every((table) => table.rows.length > 1)"
    )


def test_hosts_can_be_found_and_plots_are_read_with_the_keyboard(out: Path, browser: Page, tmp_path: Path) -> None:
    headgate("report", out, "-o", tmp_path / "report.html", check=0)
    browser.show((tmp_path / "report.html").as_uri())
    wait_for(lambda: browser.value(IS_DRAWN) == PLOTS)
    browser.value("""{ const input = document.querySelector("input");
        input.value = "127.0.0.1:1"; input.dispatchEvent(new Event("input")) }""")
    found = browser.value("[...document.querySelectorAll('td.text:first-child')].map((cell) => cell.innerText)")
    assert any("127.0.0.1:1" == host for host in found)
    browser.value("document.querySelector('.plot').focus()")
    browser.press("ArrowRight")
    legend = browser.value("document.querySelector('.u-legend').innerText")
    assert re.search(r"UTC\W*20\d\d-\d\d-\d\d", legend), legend


def test_the_series_goes_on_over_runs_and_what_is_damaged_is_replaced(out: Path, server: str, tmp_path: Path) -> None:
    points = series(out)
    assert HOSTS <= sum(point["succeeded"] + point["failed"] for point in points)
    outcomes = sum(sum(point["outcomes"].values()) for point in points)
    assert outcomes == sum(point["succeeded"] + point["failed"] for point in points)
    assert [point["at_ms"] for point in points] == sorted(point["at_ms"] for point in points)

    job, file = tmp_path / "out", tmp_path / "out" / "_headgate" / "series.ndjson"
    headgate("fetch", f"{server}/[1-10]", "-o", job, "--max-rows", "5", check=0)
    with file.open("a") as appended:
        appended.write('{"at_ms": 1, "succ')
    headgate("fetch", f"{server}/[1-10]", "-o", job, "--max-rows", "8", check=0)
    assert [5, 3] == [point["succeeded"] for point in series(job)]
    file.write_text("something else\n")
    headgate("fetch", f"{server}/[1-10]", "-o", job, check=0)
    assert [2] == [point["succeeded"] for point in series(job)]
    file.unlink()
    headgate("report", job, "-o", tmp_path / "report.html", check=0)


def test_the_series_survives_a_kill(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fetch = ("fetch", f"{server}/[1-100]", "-o", out, "--rate", "20/s", "-c", "5")
    with started(*fetch) as process:
        wait_for((out / "_headgate" / "series.ndjson").exists)
        wait_for(lambda: len(series(out)) >= 2 and package.Job(str(out)).status().done > 0)
        process.kill()
        process.wait()
    before = series(out)
    headgate(*fetch, check=0)
    after = series(out)
    assert before == after[: len(before)]
    assert 100 <= sum(point["succeeded"] for point in after)


def test_a_running_job_is_served_and_the_page_updates_itself(browser: Page, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        (tmp_path / "urls.txt").write_text("".join(f"{server}/delay/0.5?{row}\n" for row in range(200)))
        fetch = ("fetch", tmp_path / "urls.txt", "-o", out, "-c", "10", "--shutdown-timeout", "0")
        with started(*fetch) as job, started_report(out) as (process, url):
            seen, wrong = len(browser.requested), len(browser.wrong)
            browser.show(url)
            wait_for(lambda: browser.value(IS_DRAWN) == PLOTS)
            before = headline(browser)
            wait_for(lambda: headline(browser) != before)
            assert {url, f"{url}content.json", "data:,"} >= set(browser.requested[seen:])
            assert [] == browser.wrong[wrong:]

            for path in ("urls.txt", "../urls.txt", "%2e%2e/urls.txt", "_headgate/job.json", "/etc/passwd"):
                assert HTTPStatus.NOT_FOUND == code(f"{url}{path}")
            assert HTTPStatus.NOT_IMPLEMENTED == code(url, method="POST")
            assert HTTPStatus.FORBIDDEN == code(url, headers={"Host": "other.example"})
            assert HTTPStatus.OK == code(url, headers={"Host": "LOCALHOST:1"})
            # A reader that sends nothing delays no other one.
            port = int(url.rpartition(":")[2].strip("/"))
            with socket.create_connection(("127.0.0.1", port)):
                assert json.loads(get(f"{url}content.json"))["is_running"]

            job.send_signal(signal.SIGTERM)
            job.communicate(timeout=LONGEST_S)
            wait_for(lambda: "stopped" in headline(browser))
            process.send_signal(signal.SIGINT)
            assert 0 == process.wait(LONGEST_S)
    assert '"is_running":false' in report_of(out, tmp_path)


def test_the_page_has_what_a_retry_needs_and_no_secret(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "token").write_text("s3cret")
    secrets = ("--bearer", f"@{tmp_path}/token", "-H", "X-Api: t0ken", "--data", "b0dy")
    headgate("fetch", f"{server}/status/503", "-o", out, "--retries", "0", *secrets, check=3)
    text = report_of(out, tmp_path)
    assert [] == [secret for secret in ("s3cret", "t0ken", "b0dy") if secret in text]
    content = content_of(text)
    assert ["--header", "x-api, authorization"] in content["requested"]
    assert ["--data", "not stored"] in content["requested"]
    command = f"headgate retry {out} --header 'x-api: ...' --header 'authorization: ...' --data ..."
    assert command in [shown for _, shown in content["commands"]]
    # The values are those of another job, and no name is missing.
    assert "--header" in headgate(*shlex.split(command)[1:], check=2).stderr


def test_rows_that_were_retried_count_once_where_rows_are_counted(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/status/503?[1-40]", "-o", out, "--retries", "0", check=3)
    headgate("retry", out, check=3)
    content = content_of(report_of(out, tmp_path))
    assert "40 of 40 rows" in content["headline"]
    assert ["failed", "40"] in content["came"]
    assert ["statuses", "503: 40"] in content["came"]
    assert content["about"]["outcomes"].startswith("5xx: 80. Rows that were retried")


def test_what_is_wrong_is_said(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "no such directory" in headgate("report", out, "-o", tmp_path / "a.html", check=2).errors()[0]
    headgate("fetch", f"{server}/1", "-o", out, check=0)
    missing = "--output is missing: name the file to write, or serve the page with --serve 127.0.0.1:0"
    assert [missing] == headgate("report", out, check=2).errors()
    both = headgate("report", out, "-o", "a.html", "--serve", "127.0.0.1:0", check=2)
    assert ["--output excludes --serve: give one of them"] == both.errors()
    wrong = headgate("report", out, "--serve", "9464", check=2)
    assert ["--serve must be HOST:PORT, such as 127.0.0.1:9464, not '9464'"] == wrong.errors()
    refused = headgate("report", out, "-o", tmp_path / "no" / "a.html", check=1)
    assert "No such file or directory" in refused.errors()[0]


def test_python_writes_the_same_page_and_a_notebook_shows_the_plots(server: str, browser: Page, tmp_path: Path) -> None:
    package.fetch(f"{server}/status/[200-204]", tmp_path / "out", method="GET", timeout=7)
    job = package.Job.open(tmp_path / "out")
    job.report(tmp_path / "report.html")
    content = content_of((tmp_path / "report.html").read_text())
    assert ["timeout", "7"] in content["requested"] or ["timeout", "7s"] in content["requested"], content["requested"]
    (tmp_path / "cell.html").write_text(job._repr_html_())
    browser.show((tmp_path / "cell.html").as_uri())
    browser.shoot(tmp_path / "cell.png")
    # The plots are in a frame of their own, in which nothing of the notebook can be reached.
    assert "allow-scripts" == browser.value("document.querySelector('iframe').sandbox.value")


@contextmanager
def started_report(out: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serves the report on a job; yields the process and the URL."""
    wait_for((out / "_headgate" / "job.json").exists)
    with started("report", out, "--serve", "127.0.0.1:0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("report: http://127.0.0.1:"), line
        yield process, line.split()[1]


def series(out: Path) -> list[dict[str, Any]]:
    lines = (out / "_headgate" / "series.ndjson").read_text().splitlines()
    assert json.loads(lines[0])["version"] == 1
    return [json.loads(line) for line in lines[1:]]


def report_of(out: Path, directory: Path) -> str:
    headgate("report", out, "-o", directory / "report.html", check=0)
    return (directory / "report.html").read_text()


def content_of(page: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(re.findall(r'id="content">(.*?)</script>', page)[0])
    return content


def headline(browser: Page) -> str:
    shown: str = browser.value("document.querySelector('.headline').innerText")
    return shown


def code(url: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> int:
    """The status of a response."""
    request = urllib.request.Request(url, method=method, headers=headers or {})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=LONGEST_S) as response:  # noqa: S310 - as above
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        return error.code
