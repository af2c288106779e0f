import io
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headgate
from headgate.cli import _fetch_flags
from headgate.cli._fetch_flags import Command
from headgate.cli._flag import Flag
from headgate.jobs._job_options import FetchOptions
from support import command

if TYPE_CHECKING:
    from headgate.cli._parser import Parser


def read(*arguments: str) -> Command:
    parsed = _fetch_flags.read(arguments)
    assert parsed is not None
    return parsed


def mistakes(*arguments: str) -> list[str]:
    return command.mistakes("fetch", *arguments)


def test_input_and_output_are_enough() -> None:
    of_job = FetchOptions(input="urls.txt", output="results")
    expected = Command(options=of_job, yes=False, quiet=False, summary=None)
    assert expected == read("urls.txt", "-o", "results") == read("-o", "results", "urls.txt")


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ({"concurrency": 1000}, ["-c", "1000"]),
        ({"concurrency": 1000}, ["--concurrency=1000"]),
        ({"threads": 2}, ["--threads", "2"]),
        ({"max_rows": 10}, ["--max-rows", "10"]),
        ({"timeout": 1.5}, ["--timeout", "1.5"]),
        ({"timeout": 300.0}, ["--timeout", "5m"]),
        ({"connect_timeout": 2.0}, ["--connect-timeout", "2"]),
        ({"shutdown_timeout": 0.0}, ["--shutdown-timeout", "0"]),
        ({"max_body_size": 16 * 1024**2}, ["--max-body-size", "16M"]),
        ({"max_body_size": 1_500_000}, ["--max-body-size", "1.5MB"]),
        ({"part_size": 1024}, ["--part-size", "1KiB"]),
        ({"commit_interval": 60.0}, ["--commit-interval", "60"]),
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
        ({}, ["--no-location", "--location"]),
        ({"redirects": "none"}, ["-L", "--no-location"]),
        ({"redirects": "same-origin"}, ["--no-location", "--redirects", "same-origin"]),
        ({"insecure": True}, ["--no-insecure", "--insecure"]),
        ({}, ["--insecure", "--no-insecure"]),
        ({"decode": False}, ["--decode", "--no-decode"]),
        ({}, ["--no-decode", "--decode"]),
        ({}, ["--no-body", "--body"]),
        ({"no_body": True}, ["--body", "--no-body"]),
        ({"insecure": True, "ipv4": True, "concurrency": 5}, ["-k4c5"]),
        (
            {"redirects": "same-origin", "max_redirects": 3, "keep_redirects": True, "redirect_cookies": True},
            ["--redirects", "same-origin", "--max-redirects", "3", "--keep-redirects", "--redirect-cookies"],
        ),
        ({"compress_body": "zstd"}, ["--compress-body", "zstd"]),
        ({"range": "0-499,-5"}, ["-r", "0-499,-5"]),
        ({"no_body": True}, ["--no-body"]),
        ({"decode": False, "truncate_body": True}, ["--no-decode", "--truncate-body"]),
        ({"obey_robots": True}, ["--obey-robots"]),
        ({"cert": "me.pem", "key": "me.key"}, ["-E", "me.pem", "--key", "me.key"]),
        (
            {"tls_min": "1.3", "tls_server_name": "other.example"},
            ["--tls-min", "1.3", "--tls-server-name", "other.example"],
        ),
        ({"http1_1": True}, ["--http1.1"]),
        ({"http2_prior_knowledge": True, "http2_streams": 5}, ["--http2-prior-knowledge", "--http2-streams", "5"]),
        ({"proxy": ("http://a:1", "socks5h://b")}, ["-x", "http://a:1", "--proxy", "socks5h://b"]),
        ({"resolve": ("a:80:1.2.3.4", "*:443:[::1]")}, ["--resolve", "a:80:1.2.3.4", "--resolve", "*:443:[::1]"]),
        ({"ipv4": True}, ["-4"]),
        ({"ipv6": True}, ["-6"]),
        ({"local_address": ("10.0.0.1", "::1")}, ["--local-address", "10.0.0.1", "--local-address", "::1"]),
        ({"interface": "eth1"}, ["--interface", "eth1"]),
        ({"network": "public", "proxy_any_address": True}, ["--network", "public", "--proxy-any-address"]),
        (
            {"allow_net": ("10.0.0.0/8", "::1"), "deny_net": ("10.1.0.0/16",)},
            ["--allow-net", "10.0.0.0/8", "--allow-net", "::1", "--deny-net", "10.1.0.0/16"],
        ),
        ({"allow_port": ("443", "8443")}, ["--allow-port", "443", "--allow-port", "8443"]),
        (
            {"first_byte_timeout": 1.5, "idle_timeout": 2.0},
            ["--first-byte-timeout", "1.5", "--idle-timeout", "2"],
        ),
        ({"dns_server": "127.0.0.1:5353"}, ["--dns-server", "127.0.0.1:5353"]),
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
        ({"host_by": "address"}, ["--host-by", "address"]),
        ({"cost_rate": "9/m", "cost_column": "tokens"}, ["--cost-rate", "9/m", "--cost-column", "tokens"]),
        ({"cost_rate": "9/m", "cost_estimate": "body-bytes"}, ["--cost-rate", "9/m", "--cost-estimate", "body-bytes"]),
        ({"max_requests": 9}, ["--max-requests", "9"]),
        ({"max_cost": 9, "cost_column": "tokens"}, ["--max-cost", "9", "--cost-column", "tokens"]),
        ({"retries": 0}, ["--retries", "0"]),
        ({"retry_on": "connect,5xx"}, ["--retry-on", "connect,5xx"]),
        ({"retry_on": "-timeout,+404"}, ["--retry-on", "-timeout,+404"]),
        ({"retry_delay": 0.1, "retry_max_delay": 5.0}, ["--retry-delay", "0.1", "--retry-max-delay", "5"]),
        ({"total_timeout": 90.0}, ["--total-timeout", "90"]),
        ({"retry_non_idempotent": True}, ["--retry-non-idempotent"]),
        ({"idempotency_key": True}, ["--idempotency-key"]),
        ({"retry_max_pause": 60.0, "host_down_after": 5.0}, ["--retry-max-pause", "60", "--host-down-after=5"]),
        ({"max_failures": "50%"}, ["--max-failures", "50%"]),
        ({"max_failures": "1000"}, ["--max-failures", "1000"]),
        ({"if_exists": "overwrite"}, ["--if-exists", "overwrite"]),
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
        ({"extract": ("a=$.a", "b:int64=$.b")}, ["--extract", "a=$.a", "--extract", "b:int64=$.b"]),
        ({"extract": ("a=$.a",), "require": ("a",)}, ["--extract", "a=$.a", "--require", "a"]),
        ({"drop": ("body", "headers")}, ["--drop", "body,headers"]),
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
    file = str(tmp_path / "s.json")
    parsed = read("u.txt", "-o", "r", "-q", "--summary", file)
    assert (True, file) == (parsed.quiet, parsed.summary)


def test_standard_output_has_room_for_rows_or_the_summary() -> None:
    both = "and --output - can't both write to standard output: name a file with --summary"
    for flags in (["--as-json"], ["--summary", "-"]):
        assert "-" == read("u.txt", "-o", "r", *flags).summary
        assert [f"{flags[0]} {both}"] == mistakes("u.txt", "-o", "-", *flags)
    assert ["--summary and --as-json are two places for the summary: leave one of them out"] == mistakes(
        "u.txt", "-o", "r", "--as-json", "--summary", "s.json"
    )


def test_the_flag_yes_is_no_option_of_the_job() -> None:
    assert [True, True, False] == [
        read("u.txt", "-o", "r", "--if-exists", "overwrite", *flags).yes for flags in (["-y"], ["--yes"], [])
    ]


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
        ("--max-rows must be a whole number, not '1.5'", ["--max-rows", "1.5"]),
        ("--timeout must be a duration such as 30s, 500ms or 5m, not 'soon'", ["--timeout", "soon"]),
        ("--timeout must be a duration such as 30s, 500ms or 5m, not 'nan'", ["--timeout", "nan"]),
        ("--timeout must be more than 0 seconds and at most 31536000, not -4", ["--timeout", "-4"]),
        ("--timeout must be more than 0 seconds and at most 31536000, not -0.5", ["--timeout", "-500ms"]),
        ("--timeout needs a value", ["--timeout", "-k"]),
        ("--insecure takes no value", ["--insecure=1"]),
        ("--insecure takes no value", ["--no-insecure=1"]),
        ("unknown flag -5", ["-5"]),
        ("--timeout must be more than 0 seconds and at most 31536000, not 0", ["--timeout", "0"]),
        (
            "--max-body-size must be a size in bytes, such as 1048576 or 1MiB, not '1 parsec'",
            ["--max-body-size", "1 parsec"],
        ),
        ("--max-body-size must be a size in bytes, such as 1048576 or 1MiB, not '-1'", ["--max-body-size", "-1"]),
        (
            "--max-body-size must be a size in bytes, such as 1048576 or 1MiB, not '999999999999...9999999999999'",
            ["--max-body-size", "9" * 400],
        ),
        (
            "--max-body-size must be at most 1073741824, not about 1e299: a column can't store a larger body",
            ["--max-body-size", "1" + "0" * 299],
        ),
        ("--max-rows must be a whole number, not '999999999999...9999999999999'", ["--max-rows", "9" * 5000]),
        (
            "--dns-server must be the IP address of a DNS server, with or without a port, or system, not ''",
            ["--dns-server", ""],
        ),
        ("--format must be one of parquet, ndjson, none, not 'xml'", ["--format", "xml"]),
        (
            "--fail-on '5x' is not a status: write codes and classes, such as unauthorized,429,5xx, or none",
            ["--fail-on", "404,5x"],
        ),
        ("--header has no colon: write 'Name: value', or @FILE for a file of such lines", ["-H", "secret"]),
        ("--header 'a b' is not a header name", ["-H", "a b: c"]),
        ("--header x contains a control character", ["-H", "x: a\nb"]),
        ("--header needs a value", ["-H"]),
        ("--method 'GE T' is not an HTTP method", ["-X", "GE T"]),
        ("--proxy is empty", ["-x", ""]),
        ("--proxy is empty", ["-x", "http://a:1", "-x", "@/dev/null"]),
        ("--data can't read 'no/such': no such file or directory", ["-d", "@no/such"]),
        ("--summary can't be written: there is no directory 'no'", ["--summary", "no/such"]),
        ("--summary must be a file, not '/'", ["--summary", "/"]),
        ("unknown flag --concurency: did you mean --concurrency?", ["--concurency", "5"]),
        ("unknown flag --concurency: did you mean --concurrency?", ["--concurency=5"]),
        ("unknown flag --timout-s: did you mean --timeout?", ["--timout-s"]),
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
            ["--host-by", "origin", "--concurrency-per-host", "api.example.com=5"],
        ),
        (
            "--concurrency-per-host '0': write a number of requests, at least 1, or auto",
            ["--concurrency-per-host", "0"],
        ),
        ("--burst must be at least 1, not 0", ["--burst", "0"]),
        ("--host-by must be one of name, origin, address, not 'host'", ["--host-by", "host"]),
        (
            (
                "--cost-rate needs the cost of each row: give --cost-column, --cost-estimate body-bytes or"
                " --cost-from-response"
            ),
            ["--cost-rate", "1000/m"],
        ),
        ("--cost-column limits nothing without --cost-rate 150000/m or --max-cost", ["--cost-column", "tokens"]),
        ("--max-requests must be at least 1, not 0", ["--max-requests", "0"]),
        (
            "--cost-estimate can't be combined with --cost-column: a row has one cost",
            ["--cost-rate", "1000/m", "--cost-estimate", "body-bytes", "--cost-column", "tokens"],
        ),
        ("--cost-estimate must be one of body-bytes, not 'rows'", ["--cost-rate", "1000/m", "--cost-estimate", "rows"]),
        ("--retries must be at most 65535, not 65536", ["--retries", "65536"]),
        (
            (
                "--retry-on 'connect,nonsense': write error kinds, statuses and classes, such as"
                " connect,timeout,429,5xx, or none alone; with signs, +404,-429"
            ),
            ["--retry-on", "connect,nonsense"],
        ),
        (
            (
                "--retry-on 'connect,none': write error kinds, statuses and classes, such as"
                " connect,timeout,429,5xx, or none alone; with signs, +404,-429"
            ),
            ["--retry-on", "connect,none"],
        ),
        ("--total-timeout must be more than 0 seconds and at most 31536000, not 0", ["--total-timeout", "0"]),
        (
            "--max-failures '0%': write a share such as 50%, a number of failed rows, or never",
            ["--max-failures", "0%"],
        ),
        ("unknown flag --max-time: curl's --max-time is --timeout here", ["--max-time", "3"]),
        ("unknown flag -m3: curl's -m is --timeout here; oha's -m is -X here", ["-m3"]),
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
        ("--tls-server-name 'a b' is not the name of a host", ["--tls-server-name", "a b"]),
        ("INPUT a URL can't be combined with other inputs: only files can", ["http://host/[1-9]"]),
        ("INPUT - can't be combined with other inputs: only files can", ["-q", "-"]),
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
    messages = mistakes("u.txt", "--concurency", "5", "--max-rows", "x", "-H", "z", "--threads", "0", "--format")
    assert {
        "unknown flag --concurency: did you mean --concurrency?",
        "--max-rows must be a whole number, not 'x'",
        "--header has no colon: write 'Name: value', or @FILE for a file of such lines",
        "--threads must be at least 1, not 0",
        "--format needs a value",
        "--output is missing: name a directory for the results, or - for NDJSON on standard output",
    } == set(messages)
    assert len(set(messages)) == len(messages)


def test_an_invalid_name_server_is_named_with_the_other_mistakes() -> None:
    assert [
        "--dns-server must be the IP address of a DNS server, with or without a port, or system, not 'foo'",
        "--concurrency must be at least 1, not 0",
    ] == mistakes("u.txt", "-o", "r", "--dns-server", "foo", "-c", "0")


def test_the_help_has_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = command.help_of("fetch", "--concurrency", "many")
    assert "-c, --concurrency N         most requests in flight, over all hosts (default: 256)" in text
    assert "longest response body; a row with a longer one fails (default: 16MiB)" in text
    assert "read only the first N rows (default: all)" in text
    assert "how long requests in flight may continue after Ctrl-C (default: 8s)" in text
    assert "the system's, and Mozilla's)" in " ".join(text.split())


def test_the_help_gives_the_format_right_after_the_output() -> None:
    flags = [line.split()[0] for line in command.help_of("fetch").splitlines() if line.startswith("  -")]
    assert "--format" == flags[flags.index("-o,") + 1]


def test_every_option_has_its_flag() -> None:
    flags = command.flags_of_options(headgate.fetch)
    assert {"--if-exists", "--header", "--timeout"} <= flags
    assert set() == flags - command.flags_of("fetch")


@pytest.mark.parametrize("verb", command.VERBS)
def test_every_switch_has_an_opposite_that_the_help_omits(verb: str) -> None:
    flags = command.flags_of(verb)
    switches = [flag for flag in shown(verb) if flag.metavar is None]
    opposites = {flag.names[-1]: opposite(flag.names[-1]) for flag in switches}
    assert set(opposites.values()) <= flags
    assert set() == set(opposites.values()) & {name for flag in shown(verb) for name in flag.names}


def shown(verb: str) -> list[Flag]:
    """The flags in the help of a verb, except those that print the help."""
    parser: Parser = import_module(f"headgate.cli.{verb}").parser()
    return [flag for flag in parser.flags() if flag.is_shown and flag.dest != "help"]


def opposite(name: str) -> str:
    return f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else f"--no-{name.removeprefix('--')}"


def test_letters_of_requests_are_those_of_curl() -> None:
    letters = {flag.names[0]: flag.names[-1] for flag in shown("fetch") if not flag.names[0].startswith("--")}
    curl = {
        "-X": "--method",
        "-H": "--header",
        "-d": "--data",
        "-F": "--form",
        "-u": "--user",
        "-r": "--range",
        "-L": "--location",
        "-x": "--proxy",
        "-k": "--insecure",
        "-E": "--cert",
        "-4": "--ipv4",
        "-6": "--ipv6",
    }
    ours = {"-o": "--output", "-c": "--concurrency", "-q": "--quiet", "-y": "--yes"}
    assert curl | ours == letters
    words = command.printed("help").replace(".", " ").split()
    assert set() == set(letters) - set(words)
