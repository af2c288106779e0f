"""`headgate plan` reports on a job that has not begun."""

import gzip
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate
import headgate.testing
from support.command import mistakes, printed

MANY = "http://a.example/[1-50000000]"


def report(*arguments: str) -> list[str]:
    """The lines of the report, without the requests."""
    return printed("plan", *arguments).partition("\n\n")[0].splitlines()


def facts(*arguments: str) -> dict[str, str]:
    """The facts in the report, by their names."""
    return dict(re.split(r"  +", line.strip(), maxsplit=1) for line in report(*arguments) if line.startswith("  "))


def time(*arguments: str) -> str:
    """The sentence about how long the job takes."""
    (sentence,) = (line for line in report(*arguments)[1:] if not line.startswith((" ", "note: ")))
    return sentence


def requests(*arguments: str) -> list[str]:
    """The lines of the first request after its headers."""
    first = printed("plan", *arguments).split("\n\nrow ")[1]
    return first.partition("\n\n")[2].splitlines()


@pytest.fixture
def urls(tmp_path: Path) -> str:
    """A list of 100 URLs, 60 of one host and 40 of another."""
    file = tmp_path / "urls.txt"
    hosts = ["a.example"] * 3 + ["b.example"] * 2
    file.write_text("".join(f"http://{hosts[row % 5]}/{row}\n" for row in range(100)))
    return str(file)


@pytest.fixture
def large(tmp_path: Path) -> str:
    """A list with more URLs than a plan reads; each line has 25 bytes."""
    file = tmp_path / "large.txt"
    file.write_text("".join(f"http://a.example/{row:07}\n" for row in range(150_000)))
    return str(file)


def test_credentials_are_shown_with_the_rows_that_go_without(urls: str) -> None:
    header = ("-H", "Authorization: secret")
    shown = facts(urls, *header, "--credentials-for", "http://a.example", "--credentials-for", "https://*.b.example")
    assert "for http://a.example, https://*.b.example; 40 rows without" == shown["credentials"]
    assert "for every host" == facts(urls, *header, "--credentials-for", "*")["credentials"]
    assert "credentials" not in facts(urls)


def test_the_report_has_all_that_is_known(urls: str, tmp_path: Path) -> None:
    out = str(tmp_path / "results")
    flags = ("-H", "authorization: secret", "--credentials-for", "*", "--user-agent", "me/1")
    text = printed("plan", urls, "-o", out, *flags)
    machine = r"100 connections: [\d,]+ of [\d,]+ open files, 100 of [\d,]+ local ports for one address"
    assert [
        "plan: nothing was sent",
        f"  input        {urls}",
        "  rows         100",
        f"  results      {out}: a new job",
        "  disk         about 425 KiB: 4.2 KiB for each row (assumed); ... free",
        "  hosts        2",
        "    a.example  60",
        "    b.example  40",
        "  credentials  for every host",
        "  network      any address but link-local and metadata ones",
        "  machine      ...",
        (
            "how long it takes depends on the time of a response: estimate that with --assume-latency, "
            "or measure it with --probe 10"
        ),
        "",
        "row 0 to http://a.example",
        "  GET /0 HTTP/1.1",
        "  host: a.example",
        "  user-agent: me/1",
        "  accept: */*",
        "  accept-encoding: gzip, deflate, br, zstd",
        "  authorization: ***",
    ] == re.sub(rf"{machine}|[\d.]+ [GT]iB(?= free)", "...", text).splitlines()[:20]


def test_the_report_in_python_names_keywords() -> None:
    plan = headgate.plan(MANY, rate="100/s")
    assert "at most 100/s by rate: 50,000,000 rows take 5 d 18 h, unless responses take more than 2.6 s" == plan.time
    assert plan.time in str(plan).splitlines()


def test_the_network_policy_is_shown_with_its_options() -> None:
    flags = ("--network", "public", "--allow-net", "10.0.0.0/8", "--deny-net", "10.1.0.0/16", "--deny-net", "::1/128")
    assert (
        "public addresses only; --allow-net 10.0.0.0/8; --deny-net 10.1.0.0/16; --deny-net ::1/128; --allow-port 443"
    ) == facts(MANY, *flags, "--allow-port", "443")["network"]


@pytest.mark.parametrize(
    ("expected", "flags"),
    [
        (
            "at most 100/s by --rate: 50,000,000 rows take 5 d 18 h, unless responses take more than 2.6 s",
            ["--rate", "100/s"],
        ),
        ("at most 100/s by --rate: 50,000,000 rows take 5 d 18 h", ["--rate", "100/s", "--assume-latency", "0.1"]),
        (
            "at most 1 in 10 s by --rate: 50,000,000 rows take 5787 d 00 h",
            ["--rate", "1/10s", "--assume-latency", "0.1"],
        ),
        (
            "at most 30/s by --rate-per-host (a.example): 50,000,000 rows take 19 d 06 h",
            ["--rate-per-host", "a.example=30/s", "--assume-latency", "0.1"],
        ),
        (
            "at most 2,560/s by --concurrency (256 in flight, 100 ms per response): 50,000,000 rows take 5 h 25 min",
            ["--assume-latency", "0.1"],
        ),
    ],
)
def test_one_sentence_names_what_bounds_the_job_and_how_long_it_takes(expected: str, flags: list[str]) -> None:
    assert expected == time(MANY, *flags)


@pytest.mark.parametrize(
    ("expected", "seconds", "flag"),
    [
        ("50/s by --rate-per-host (a.example has 60 % of the rows, at 30/s)", "2.0", "--rate-per-host=30/s"),
        (
            "33/s by --concurrency-per-host (2 in flight, 100 ms per response; a.example has 60 % of the rows)",
            "3.0",
            "--concurrency-per-host=2",
        ),
    ],
)
def test_the_slowest_host_is_named_with_its_share(expected: str, seconds: str, flag: str, urls: str) -> None:
    assert f"at most {expected}: 100 rows take {seconds} s" == time(urls, flag, "--assume-latency", "0.1")


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ("at most 10/s by --rate: 2 requests take 0.2 s", ["http://a.example/", "http://b.example/", "x:y"]),
        ("at most 10/s by --rate: 1 row takes 0.1 s", ["http://a.example/"]),
        ("there is nothing to send", []),
        ("there is nothing to send", ["x:y"]),
    ],
)
def test_the_sentence_counts_rows_or_requests(expected: str, lines: list[str], tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    assert expected == time(str(file), "--rate", "10/s", "--assume-latency", "0.001")


def test_an_estimate_is_called_one(large: str) -> None:
    assert re.fullmatch(r"about \d+,\d{3}: an estimate from the first 100,000 of 3\.6 MiB", facts(large)["rows"])
    sentence = time(large, "--rate", "100/s", "--assume-latency", "0.1")
    assert re.fullmatch(r"at most 100/s by --rate: about 1[45]\d,000 rows take 2[45] min \d\d s", sentence)
    assert "a.example in the first 100,000 rows" == facts(large)["host"]
    assert "50,000,000" == facts(MANY)["rows"]


def test_the_rows_of_a_compressed_file_are_not_known(large: str, tmp_path: Path) -> None:
    packed = tmp_path / "large.txt.gz"
    packed.write_bytes(gzip.compress(Path(large).read_bytes(), 1))
    assert re.fullmatch(
        r"more than 100,000, how many is not known: [\d.]+ [KM]iB, compressed", facts(str(packed))["rows"]
    )
    sentence = time(str(packed), "--rate", "100/s", "--assume-latency", "0.1")
    assert "at most 100/s by --rate; how long that takes depends on how many rows there are" == sentence


def test_the_plan_says_what_becomes_of_existing_results(tmp_path: Path) -> None:
    out, url = str(tmp_path / "results"), "http://a.example/[1-2]"
    assert "standard output" == facts(url, "-o", "-")["results"]
    with headgate.testing.mock() as mock:
        mock.get("/1", text="a")
        mock.get("/2", status=503)
        with pytest.raises(headgate.JobStopped):
            headgate.fetch(url, out, max_failures=0, retries=0, concurrency=1)
        found = facts(url, "-o", out)
        assert f"{out}: the job there is finished, 2 rows done" == found["results"]
        assert "nothing is left to do: start over with --if-exists overwrite" == time(url, "-o", out)
    found = facts(url, "-o", out, "--if-exists", "overwrite")
    assert f"{out}: 2 rows of an earlier job there are replaced" == found["results"]


def test_done_rows_and_invalid_rows_are_counted(tmp_path: Path) -> None:
    file, out = tmp_path / "urls.txt", str(tmp_path / "results")
    file.write_text("http://a.example/\nhttp://b.example/\nhttp://c.example/\nx:y\n")
    with headgate.testing.mock(assert_all_called=False) as mock:
        mock.get(prefix="http://", status=503)
        with pytest.raises(headgate.JobStopped):
            headgate.fetch(file, out, max_failures=0, retries=0, rate="1/h")
    found = facts(str(file), "-o", out)
    assert f"{out}: the job there goes on" == found["results"]
    done, left = re.findall(r"\d+", found["done"])
    assert 4 == int(done) + int(left)
    assert found["invalid"].startswith("1, the first is row 3: x:y: ")
    assert re.search(r" for each row \(as so far\); ", found["disk"])


def test_invalid_rows_are_counted_by_their_cause(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("url\nx:y\nhttp://a.example/\nhttp://[1]/\nz:y\n")
    lines = report(str(file))
    start = next(index for index, line in enumerate(lines) if line.startswith("  invalid"))
    assert [
        "  invalid  3 rows",
        "           2, the first is row 0: x:y: only URLs of http and https are supported (not x)",
        "           1, the first is row 2: http://[1]/: not a URL: invalid IPv6 address",
    ] == lines[start : start + 3]
    assert [(2, 0, "x:y"), (1, 2, "http://[1]/")] == [
        (cause.rows, cause.first_row, cause.url) for cause in headgate.plan(file).invalid_causes
    ]


@pytest.mark.parametrize(
    ("equal", "lines", "flags"),
    [
        ("1 of 3 sampled requests is equal to an earlier one", ["1,a", "2,b", "1,a"], ["--url", "http://a/{id}"]),
        ("1 of 3 sampled requests is equal to an earlier one", ["1,a", "1,a", "1,b"], ["--json", '{"x": "{x}"}']),
        (None, ["1,a", "1,b"], ["--header-template", "X-A: {x}"]),
        ("2 of 3 sampled requests are equal to an earlier one", ["1,a"] * 3, ["-F", "x={x}", "--idempotency-key"]),
    ],
)
def test_equal_requests_are_counted(equal: str | None, lines: list[str], flags: list[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{line}\n" for line in ["id,x", *lines]))
    if "--url" not in flags:
        flags = [*flags, "--url", "http://a/"]
    assert equal == facts(str(file), *flags).get("equal")


def test_the_space_for_the_results_is_compared_with_what_is_free(urls: str, tmp_path: Path) -> None:
    out = str(tmp_path / "results")
    assert "disk" not in facts(urls)
    assert facts(urls, "-o", out)["disk"].startswith("about 425 KiB: 4.2 KiB for each row (assumed); ")
    assert facts(urls, "-o", out, "--drop", "body")["disk"].startswith("about 25.0 KiB: 256 B for each row (assumed); ")
    notes = [line for line in report(urls, "-o", out, "--min-free", "1000TiB") if line.startswith("note: the results")]
    assert len(notes) == 1
    assert notes[0].endswith("of which 1.0 PiB must stay free (--min-free): free some space, or choose another -o")
    with headgate.testing.mock() as mock:
        mock.get(prefix="/", content=b"x" * 1000)
        probed = facts("http://a.example/[1-100]", "-o", out, "--probe", "2")
        headgate.fetch("http://a.example/[1-10]", out, max_rows=10)
    assert probed["disk"].startswith("about 123 KiB: 1.2 KiB for each row (by the probe); ")
    assert "disk" not in facts("http://a.example/[1-10]", "-o", out, "--max-rows", "10")


def test_each_limit_is_listed_if_there_are_several(urls: str) -> None:
    lines = report(urls, "--rate", "100/s", "--assume-latency", "0.1")
    assert ["  at most      100/s by --rate", "               1,000/s by --concurrency"] == lines[-3:-1]


def test_the_plan_shows_the_requests_and_responses_of_a_probe() -> None:
    with headgate.testing.mock(assert_all_called=False) as mock:
        mock.get("/5", error="connection_closed")
        mock.get("/{row}").gives(lambda request: 503 if request.path == "/2" else 200)
        lines = report("http://a.example/[1-9]", "--probe", "5")
    assert "plan: 5 requests sent as a probe, and nothing else" == lines[0]
    (probe,) = (line for line in lines if line.startswith("  probe "))
    assert re.fullmatch(r"  probe +median [\d.]+ (µs|ms|s) \(200: 3, 503: 1, connection_closed: 1\)", probe)
    with headgate.testing.mock() as mock:
        mock.get(prefix="/", error="connect")
        assert "no response (connect: 5)" == facts("http://a.example/[1-9]", "--probe", "5")["probe"]


def test_a_body_is_shown_as_text_up_to_a_length(tmp_path: Path) -> None:
    def body(data: bytes) -> list[str]:
        (tmp_path / "body").write_bytes(data)
        return requests(MANY, "-d", f"@{tmp_path / 'body'}")

    assert ["  a", r"  b\x1b[2J"] == body(b"a\nb\x1b[2J")
    assert ["  " + "x" * 2000, "  … (5,000 bytes in all)"] == body(b"x" * 5000)
    assert ["  (1 byte that are no text)"] == body(b"\xff")


def test_files_of_a_body_are_named_between_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\nb.png").write_bytes(bytes(5000))
    pq.write_table(pa.table({"url": ["http://a.example/"], "path": ["a\nb.png"], "text": ["1\x1b"]}), "rows.parquet")
    lines = requests("rows.parquet", "--form", "a={text}", "--form", "b=@{path}")
    boundary = lines[0]
    assert boundary.startswith("  --headgate-")
    assert ['  Content-Disposition: form-data; name="a"', "  ", r"  1\x1b", boundary] == lines[1:5]
    assert [r"  <contents of a\nb.png, 5,000 bytes>", f"{boundary}--", "  "] == lines[-3:]


def test_a_file_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "\x1b[2J.txt"
    file.write_text("http://a.example/\n")
    assert "\x1b" not in printed("plan", str(file))
    assert "\x1b" not in str(headgate.plan(file))


def test_latency_is_assumed_or_measured_and_output_may_be_missing() -> None:
    def refused(*flags: str) -> list[str]:
        return mistakes("plan", MANY, *flags)

    for options in ({}, {"assume_latency": 0.1, "output": "results"}):
        given: dict[str, Any] = options
        assert headgate.plan(MANY, **given).rows == 50_000_000
    assert ["--probe must be at least 1, not 0"] == refused("--probe", "0")
    both = "--assume-latency and --probe both set the time of a response: leave one of them out"
    assert [both] == refused("--probe", "1", "--assume-latency", "1")
