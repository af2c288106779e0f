import io
import sys
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.cli import _fetch_flags, _foreign
from headgate.cli._fetch_flags import Command
from headgate.jobs._job_options import FetchOptions
from support import command


def read(*arguments: str) -> Command:
    parsed = _fetch_flags.read(arguments)
    assert parsed is not None
    return parsed


def mistakes(*arguments: str) -> list[str]:
    return command.mistakes("fetch", *arguments)


def test_input_and_output_are_enough() -> None:
    expected = Command(options=FetchOptions(input="urls.txt", output="results"), yes=False, quiet=False, summary=None)
    assert expected == read("urls.txt", "-o", "results") == read("-o", "results", "urls.txt")


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ({"concurrency": 1000}, ["-c", "1000"]),
        ({"concurrency": 1000}, ["--concurrency=1000"]),
        ({"threads": 2}, ["--threads", "2"]),
        ({"head": 10}, ["--head", "10"]),
        ({"timeout_s": 1.5}, ["--timeout-s", "1.5"]),
        ({"connect_timeout_s": 2.0}, ["--connect-timeout-s", "2"]),
        ({"grace_s": 0.0}, ["--grace-s", "0"]),
        ({"max_body_bytes": 16 * 1024**2}, ["--max-body-bytes", "16M"]),
        ({"max_body_bytes": 1_500_000}, ["--max-body-bytes", "1.5MB"]),
        ({"part_bytes": 1024}, ["--part-bytes", "1KiB"]),
        ({"commit_every_s": 60.0}, ["--commit-every-s", "60"]),
        ({"fail_on": "404,5xx"}, ["--fail-on", "404,5xx"]),
        ({"fail_on": ""}, ["--fail-on="]),
        ({"method": "HEAD"}, ["-X", "HEAD"]),
        ({"data": b"a=1"}, ["-d", "a=1"]),
        ({"method": "PUT", "data": b"a=1"}, ["-d", "a=1", "-X", "PUT"]),
        ({"headers": [("A", "1:2"), ("b", ""), ("A", "3")]}, ["-H", "A: 1:2", "-H", "b:", "--header", "A:3"]),
        ({"user": b"me:pass:word"}, ["-u", "me:pass:word"]),
        ({"secret_headers": ("x-a", "x-b")}, ["--secret-header", "x-a", "--secret-header", "x-b"]),
        (
            {"credentials_for": ("https://a.example", "*")},
            ["--credentials-for", "https://a.example", "--credentials-for", "*"],
        ),
        ({"user_agent": "me/1"}, ["--user-agent", "me/1"]),
        ({"cacert": "ca.pem"}, ["--cacert", "ca.pem"]),
        ({"insecure": True}, ["-k"]),
        ({}, ["-L"]),
        (
            {"redirects": "same-origin", "max_redirects": 3, "keep_redirects": True, "cookies": True},
            ["--redirects", "same-origin", "--max-redirects", "3", "--keep-redirects", "--cookies"],
        ),
        ({"compress_body": "zstd"}, ["--compress-body", "zstd"]),
        ({"range": "0-499,-5"}, ["-r", "0-499,-5"]),
        ({"no_body": True}, ["--no-body"]),
        ({"raw": True, "truncate_body": True}, ["--raw", "--truncate-body"]),
        ({"robots": True}, ["--robots"]),
        ({"cert": "me.pem", "key": "me.key"}, ["-E", "me.pem", "--key", "me.key"]),
        ({"tls_min": "1.3", "sni": "other.example"}, ["--tls-min", "1.3", "--sni", "other.example"]),
        ({"http1_1": True}, ["--http1.1"]),
        ({"http2_prior_knowledge": True, "http2_streams": 5}, ["--http2-prior-knowledge", "--http2-streams", "5"]),
        ({"proxy": ("http://a:1", "socks5h://b")}, ["-x", "http://a:1", "--proxy", "socks5h://b"]),
        ({"resolve": ("a:80:1.2.3.4", "*:443:[::1]")}, ["--resolve", "a:80:1.2.3.4", "--resolve", "*:443:[::1]"]),
        ({"ipv4": True}, ["-4"]),
        ({"ipv6": True}, ["-6"]),
        ({"local_address": ("10.0.0.1", "::1")}, ["--local-address", "10.0.0.1", "--local-address", "::1"]),
        ({"interface": "eth1"}, ["--interface", "eth1"]),
        ({"network": "public", "trust_proxy": True}, ["--network", "public", "--trust-proxy"]),
        (
            {"allow_net": ("10.0.0.0/8", "::1"), "deny_net": ("10.1.0.0/16",)},
            ["--allow-net", "10.0.0.0/8", "--allow-net", "::1", "--deny-net", "10.1.0.0/16"],
        ),
        ({"allow_port": ("443", "8443")}, ["--allow-port", "443", "--allow-port", "8443"]),
        (
            {"first_byte_timeout_s": 1.5, "idle_timeout_s": 2.0},
            ["--first-byte-timeout-s", "1.5", "--idle-timeout-s", "2"],
        ),
        ({"dns": "127.0.0.1:5353"}, ["--dns", "127.0.0.1:5353"]),
        ({"concurrency_per_host": "auto"}, ["--concurrency-per-host", "auto"]),
        (
            {"concurrency_per_host": "8,slow.example=2"},
            ["--concurrency-per-host", "8", "--concurrency-per-host", "slow.example=2"],
        ),
        ({"rate": "100/s"}, ["--rate", "100/s"]),
        (
            {"rate_per_host": "10/s,api.example.com=5/s"},
            ["--rate-per-host", "10/s", "--rate-per-host=api.example.com=5/s"],
        ),
        ({"rate": "100/s", "burst": 5}, ["--rate", "100/s", "--burst", "5"]),
        ({"limit_by": "address"}, ["--limit-by", "address"]),
        ({"rate_cost": "9/m", "cost_column": "tokens"}, ["--rate-cost", "9/m", "--cost-column", "tokens"]),
        ({"rate_cost": "9/m", "cost_of": "body-bytes"}, ["--rate-cost", "9/m", "--cost-of", "body-bytes"]),
        ({"retries": 0}, ["--retries", "0"]),
        ({"retry_on": "connect,5xx"}, ["--retry-on", "connect,5xx"]),
        ({"retry_delay_s": 0.1, "retry_max_delay_s": 5.0}, ["--retry-delay-s", "0.1", "--retry-max-delay-s", "5"]),
        ({"deadline_s": 90.0}, ["--deadline-s", "90"]),
        ({"retry_unsafe": True}, ["--retry-unsafe"]),
        ({"idempotency_key": True}, ["--idempotency-key"]),
        ({"max_retry_after_s": 60.0, "host_down_after_s": 5.0}, ["--max-retry-after-s", "60", "--host-down-after-s=5"]),
        ({"stop_when_failed": "50%"}, ["--stop-when-failed", "50%"]),
        ({"stop_when_failed": "1000"}, ["--stop-when-failed", "1000"]),
        ({"fresh": True}, ["--fresh"]),
        ({"format": "ndjson"}, ["--format", "ndjson"]),
        ({"keep": ("id", "a", "b")}, ["--keep", "id", "--keep", "a,b"]),
        ({"keep": ("*",)}, ["--keep", "*"]),
        ({"url": "http://h/{id}"}, ["--url", "http://h/{id}"]),
        ({"header_templates": [("X-A", "{a}")]}, ["--header-template", "X-A: {a}"]),
        ({"json": '{"a": "{a}"}'}, ["--json", '{"a": "{a}"}']),
        ({"data_urlencode": ("a={a}", "b={b}")}, ["--data-urlencode", "a={a}", "--data-urlencode", "b={b}"]),
        ({"form": ("a={a}", "f=@{path}")}, ["-F", "a={a}", "--form", "f=@{path}"]),
        ({"body_file_column": "path"}, ["--body-file-column", "path"]),
        ({"if_none_match_column": "etag"}, ["--if-none-match-column", "etag"]),
        ({"if_modified_since_column": "seen"}, ["--if-modified-since-column", "seen"]),
        ({"select": ("a=$.a", "b:int64=$.b")}, ["--select", "a=$.a", "--select", "b:int64=$.b"]),
        ({"select": ("a=$.a",), "require": ("a",)}, ["--select", "a=$.a", "--require", "a"]),
        ({"omit": ("body", "headers")}, ["--omit", "body,headers"]),
        ({"save_to": "{row}", "save_format": "tar"}, ["--save-to", "{row}", "--save-format", "tar"]),
        ({"save_to": "{row}", "checksum_column": "sum"}, ["--save-to", "{row}", "--checksum-column", "sum"]),
        ({"url_column": "link"}, ["--url-column", "link"]),
        ({"method_column": "verb"}, ["--method-column", "verb"]),
        ({"headers_column": "fields"}, ["--headers-column", "fields"]),
        ({"body_column": "payload"}, ["--body-column", "payload"]),
    ],
)
def test_each_flag_sets_the_option_of_its_name(expected: dict[str, Any], arguments: list[str]) -> None:
    assert FetchOptions(input="u.txt", output="r", **expected) == read("u.txt", "-o", "r", *arguments).options


def test_standard_output_gets_ndjson() -> None:
    assert FetchOptions(input="-", output="-") == read("-", "-o", "-").options


def test_nothing_is_kept_with_the_format_none() -> None:
    assert FetchOptions(input="u.txt", output=None, format="none") == read("u.txt", "--format", "none").options


def test_quiet_and_the_file_for_the_summary_are_no_options_of_the_job(tmp_path: Path) -> None:
    parsed = read("u.txt", "-o", "r", "-q", "--summary", str(tmp_path / "s.json"))
    assert (True, tmp_path / "s.json") == (parsed.quiet, parsed.summary)


def test_the_flag_yes_is_no_option_of_the_job() -> None:
    assert [True, True, False] == [read("u.txt", "-o", "r", "--fresh", *flags).yes for flags in (["-y"], ["--yes"], [])]


def test_data_comes_from_a_file_as_it_is(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\xff\x00line\r\n")
    assert b"\xff\x00line\r\n" == read("u.txt", "-o", "r", "-d", f"@{body}").options.data


def test_data_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    assert b"typed" == read("u.txt", "-o", "r", "-d", "@-").options.data


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("--concurrency must be at least 1, not 0", ["-c", "0"]),
        ("--concurrency must be at least 1, not -5", ["-c", "-5"]),
        ("--concurrency must be a whole number, not 'many'", ["-c", "many"]),
        ("--concurrency needs a value", ["-c"]),
        ("--threads must be at least 1, not 0", ["--threads", "0"]),
        ("--head must be a whole number, not '1.5'", ["--head", "1.5"]),
        ("--timeout-s must be a number of seconds, not '5s'", ["--timeout-s", "5s"]),
        ("--timeout-s must be a number of seconds, not 'nan'", ["--timeout-s", "nan"]),
        ("--timeout-s must be more than 0 seconds and at most 31536000, not 0", ["--timeout-s", "0"]),
        (
            "--max-body-bytes must be a size in bytes, such as 1048576 or 1MiB, not '1 parsec'",
            ["--max-body-bytes", "1 parsec"],
        ),
        ("--max-body-bytes must be a size in bytes, such as 1048576 or 1MiB, not '-1'", ["--max-body-bytes", "-1"]),
        (
            "--max-body-bytes must be a size in bytes, such as 1048576 or 1MiB, not '999999999999...9999999999999'",
            ["--max-body-bytes", "9" * 400],
        ),
        (
            "--max-body-bytes must be at most 1073741824, not about 1e299: a column holds no larger body",
            ["--max-body-bytes", "1" + "0" * 299],
        ),
        ("--head must be a whole number, not '999999999999...9999999999999'", ["--head", "9" * 5000]),
        (
            "--dns must be the IP address of a name server, with or without a port, or system, not ''",
            ["--dns", ""],
        ),
        ("--format must be one of parquet, ndjson, none, not 'xml'", ["--format", "xml"]),
        ("--fail-on '5x' is not a status: write codes and classes, such as 429,5xx, or none", ["--fail-on", "404,5x"]),
        ("--header has no colon: write 'Name: value', or @FILE for a file of such lines", ["-H", "secret"]),
        ("--header 'a b' is not a header name", ["-H", "a b: c"]),
        ("--header x holds a control character", ["-H", "x: a\nb"]),
        ("--header needs a value", ["-H"]),
        ("--method 'GE T' is not an HTTP method", ["-X", "GE T"]),
        ("--proxy is empty", ["-x", ""]),
        ("--proxy is empty", ["-x", "http://a:1", "-x", "@/dev/null"]),
        ("--data can't read 'no/such': no such file or directory", ["-d", "@no/such"]),
        ("--summary can't be written: there is no directory 'no'", ["--summary", "no/such"]),
        ("--summary must be a file, not '/'", ["--summary", "/"]),
        ("unknown flag --concurency: did you mean --concurrency?", ["--concurency", "5"]),
        ("unknown flag --concurency: did you mean --concurrency?", ["--concurency=5"]),
        ("unknown flag --timout-s: did you mean --timeout-s?", ["--timout-s"]),
        ("unknown flag -Q: did you mean -q?", ["-Q"]),
        ("unknown flag --xyzzy", ["--xyzzy"]),
        ("unknown flag --reverse", ["--reverse"]),  # a less strict similarity would suggest --header
        ("unknown flag --retry: curl's --retry is --retries here", ["--retry", "5"]),
        (
            "--rate '100' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s",
            ["--rate", "100"],
        ),
        (
            "--rate-per-host '5/x' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s",
            ["--rate-per-host", "10/s", "--rate-per-host", "api.example.com=5/x"],
        ),
        (
            "--rate-per-host 'api.example.com:443' is not the name of a host, such as api.example.com",
            ["--rate-per-host", "api.example.com:443=5/s"],
        ),
        (
            (
                "--concurrency-per-host 'api.example.com' is not an origin, such as https://api.example.com or"
                " http://10.0.0.1:8080"
            ),
            ["--limit-by", "origin", "--concurrency-per-host", "api.example.com=5"],
        ),
        (
            "--concurrency-per-host '0': write a number of requests, at least 1, or auto",
            ["--concurrency-per-host", "0"],
        ),
        ("--burst must be at least 1, not 0", ["--burst", "0"]),
        ("--limit-by must be one of name, origin, address, not 'host'", ["--limit-by", "host"]),
        (
            "--rate-cost needs the cost of each row: give --cost-column, --cost-of body-bytes or --cost-from",
            ["--rate-cost", "1000/m"],
        ),
        ("--cost-column limits nothing without --rate-cost 150000/m", ["--cost-column", "tokens"]),
        (
            "--cost-of can't be combined with --cost-column: a row has one cost",
            ["--rate-cost", "1000/m", "--cost-of", "body-bytes", "--cost-column", "tokens"],
        ),
        ("--cost-of must be one of body-bytes, not 'rows'", ["--rate-cost", "1000/m", "--cost-of", "rows"]),
        ("--retries must be at most 65535, not 65536", ["--retries", "65536"]),
        (
            (
                "--retry-on 'connect,nonsense': write kinds of errors, statuses and classes, such as"
                " connect,timeout,429,5xx, or none"
            ),
            ["--retry-on", "connect,nonsense"],
        ),
        ("--deadline-s must be more than 0 seconds and at most 31536000, not 0", ["--deadline-s", "0"]),
        (
            "--stop-when-failed '0%': write a share such as 50%, a number of failed rows, or never",
            ["--stop-when-failed", "0%"],
        ),
        ("unknown flag --max-time: curl's --max-time is --timeout-s here", ["--max-time", "3"]),
        ("unknown flag --timeout: wget's and aria2's --timeout is --timeout-s here", ["--timeout=3"]),
        ("unknown flag -m3: curl's -m is --timeout-s here; oha's -m is -X here", ["-m3"]),
        (
            "--proxy has the scheme ftp:// that is not supported: http://, https://, socks5h:// and socks5:// are",
            ["--proxy", "ftp://me:secret@p"],
        ),
        (
            (
                "--resolve `a` has no port and no address: it must be host:port:address, such as"
                " api.example.com:443:192.0.2.1"
            ),
            ["--resolve", "a"],
        ),
        ("--sni 'a b' is not the name of a host", ["--sni", "a b"]),
        ("INPUT a URL can't be combined with others: only files can", ["http://host/[1-9]"]),
        ("INPUT - can't be combined with others: only files can", ["-q", "-"]),
        ("INPUT must not have an empty path", ["more.txt", ""]),
    ],
)
def test_each_mistake_names_its_flag_and_what_would_be_right(expected: str, arguments: list[str]) -> None:
    assert [expected] == mistakes("urls.txt", "-o", "results", *arguments)


def test_input_and_output_must_be_there() -> None:
    assert [
        "INPUT is missing: name a file, a directory, a URL with ranges, or - for lines on standard input",
        "--output is missing: name a directory for the results, or - for NDJSON on standard output",
    ] == mistakes()


@pytest.mark.parametrize(
    "arguments", [["a", "b", "c", "-o", "r"], ["-o", "r", "a", "b", "c"], ["a", "-q", "b", "-o", "r", "c"]]
)
def test_inputs_may_be_anywhere_on_the_command_line_and_keep_their_order(arguments: list[str]) -> None:
    assert ("a", "b", "c") == read(*arguments).options.input


def test_standard_input_cannot_be_both_input_and_data() -> None:
    assert ["--data @- and INPUT - can't both read standard input"] == mistakes("-", "-o", "r", "-d", "@-")


def test_parquet_cannot_go_to_standard_output() -> None:
    assert ["--format parquet can't go to standard output: use ndjson, or name a directory"] == mistakes(
        "u.txt", "-o", "-", "--format", "parquet"
    )


def test_all_mistakes_of_a_command_line_are_named_at_once() -> None:
    messages = mistakes("u.txt", "--concurency", "5", "--head", "x", "-H", "z", "--threads", "0", "--format")
    assert {
        "unknown flag --concurency: did you mean --concurrency?",
        "--head must be a whole number, not 'x'",
        "--header has no colon: write 'Name: value', or @FILE for a file of such lines",
        "--threads must be at least 1, not 0",
        "--format needs a value",
        "--output is missing: name a directory for the results, or - for NDJSON on standard output",
    } == set(messages)
    assert len(set(messages)) == len(messages)


def test_an_invalid_name_server_is_named_with_the_other_mistakes() -> None:
    assert [
        "--dns must be the IP address of a name server, with or without a port, or system, not 'foo'",
        "--concurrency must be at least 1, not 0",
    ] == mistakes("u.txt", "-o", "r", "--dns", "foo", "-c", "0")


def test_the_help_groups_the_flags_and_gives_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = command.help_of("fetch", "--concurrency", "many")
    titles = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert [
        "input",
        "request",
        "connections",
        "limits",
        "rates",
        "retries",
        "output",
        "progress",
        "other",
        "examples",
        "exit codes",
    ] == titles
    assert "-c, --concurrency N         most requests in flight, over all threads and hosts (default: 256)" in text
    assert "longest response body; a row with a longer one fails (default: 16MiB)" in text
    assert "read only the first N rows (default: all)" in text
    assert "how long requests in flight may continue after Ctrl-C (default: 10)" in text
    assert "the system's, and Mozilla's)" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 110


def test_the_help_gives_the_format_right_after_the_output() -> None:
    flags = [line.split()[0] for line in command.help_of("fetch").splitlines() if line.startswith("  -")]
    assert "--format" == flags[flags.index("-o,") + 1]


def test_every_option_has_its_flag() -> None:
    flags = command.flags_of_options(headgate.fetch)
    assert {"--no-resume", "--header", "--timeout-s"} <= flags
    assert set() == flags - set(command.flags_in(command.help_of("fetch")))


def test_every_flag_that_replaces_one_of_another_program_exists_and_none_of_those_does() -> None:
    ours = set(command.flags_in(command.help_of("fetch")))
    assert set() == ours & set(_foreign.MEANINGS)
    meant = [what for meanings in _foreign.MEANINGS.values() for what in meanings.values()]
    named = {flag for what in meant for flag in command.flags_in(what)}
    assert len(named) > 10
    assert set() == named - ours
