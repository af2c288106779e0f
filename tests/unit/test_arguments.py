"""Arguments may be given in the forms that Python programs have; what can't be read is refused by name."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
import headgate.testing

WRITE_STATUSES = "write '429,5xx' or [429, '5xx']"
WRITE_FAILURES = "write 'connect,429' or ['connect', 429]"
WRITE_KINDS = "write 'timeout,503' or ['timeout', 503]"
WRITE_SELECTION = "write {'answer': '$.answer', 'tokens:int64': '$.usage.total'} or ['answer=$.answer']"
WRITE = "give a mapping, as {'Accept': 'text/html'}, or pairs, as [('Accept', 'text/html')]"


URLS = "http://a.example/[0-9]"


@pytest.fixture
def mock() -> Iterator[headgate.testing.MockServer]:
    with headgate.testing.mock() as mock:
        yield mock


def planned(**options: Any) -> Any:
    """Returns the first request that a job with these options would send."""
    return headgate.plan(URLS, **options).requests[0]


def mistake(option: str, value: object) -> str:
    """Returns the message of the error that refuses an argument."""
    given: dict[str, Any] = {option: value}
    is_of_retry = option == "only"
    call: Callable[..., object] = headgate.Job("results").retry if is_of_retry else headgate.fetch
    if not is_of_retry:
        given = {"input": "urls.txt", "output": "results"} | given
    with pytest.raises(headgate.UsageError) as raised:
        call(**given)
    return str(raised.value)


def test_headers_keep_their_order_and_repeats() -> None:
    def sent(headers: Any) -> list[tuple[str, str]]:
        return [(name, value) for name, value in planned(headers=headers).headers if name in {"a", "b"}]

    pairs = [("b", "1"), ("a", "2"), ("b", "3")]
    assert pairs == sent(iter(pairs))
    assert [("b", "1"), ("a", "2")] == sent({"b": "1", "a": "2"})


def test_inputs_are_one_path_or_several_as_text_or_not(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for file in files:
        file.write_text("http://a.example/\n")
    assert str(files[0]) == headgate.plan(files[0]).input == headgate.plan(str(files[0])).input
    assert 2 == headgate.plan(file for file in (files[0], str(files[1]))).rows


def test_the_name_of_a_directory_may_have_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    source, results = tmp_path / "urls.txt", tmp_path / "a\udcff"
    source.write_text("")
    headgate.fetch(source, str(results))
    assert results.is_dir()


@pytest.mark.parametrize(
    ("expected", "fail_on"),
    [(2, [404, "5xx"]), (2, "404, 5xx"), (1, ["5xx"]), (0, ""), (0, ()), (0, "none")],
)
def test_statuses_that_fail_are_text_or_a_list(
    expected: int, fail_on: Any, mock: headgate.testing.MockServer, tmp_path: Path
) -> None:
    mock.get("http://a.example/{status}").gives(lambda request: int(request.path_params["status"]))
    source = tmp_path / "urls.txt"
    source.write_text("".join(f"http://a.example/{status}\n" for status in (200, 404, 503)))
    given = iter(fail_on) if isinstance(fail_on, list) else fail_on
    assert expected == headgate.fetch(source, tmp_path / "results", fail_on=given, retries=0).failed


@pytest.mark.parametrize(
    ("expected", "only"),
    [
        (1, "connection_closed, status:503"),
        (1, iter(["connection_closed"])),
        (2, ["connection_closed", "tls"]),
        (1, ["tls", 503]),
        (2, None),
    ],
)
def test_kinds_of_failures_are_text_or_a_list(
    expected: int, only: Any, mock: headgate.testing.MockServer, tmp_path: Path
) -> None:
    mock.get("http://a.example/closed", error="connection_closed")
    mock.get("http://a.example/tls", error="tls")
    source = tmp_path / "urls.txt"
    source.write_text("http://a.example/closed\nhttp://a.example/tls\n")
    headgate.fetch(source, tmp_path / "results", retries=0)
    assert expected == headgate.Job.open(tmp_path / "results").retry(only=only, retries=0).rows


@pytest.mark.parametrize("retry_on", ["connect,429", ["connect", 429]])
def test_failures_to_retry_are_text_or_a_list(retry_on: Any, mock: headgate.testing.MockServer, tmp_path: Path) -> None:
    limited, broken = mock.get("http://a.example/0", status=429), mock.get("http://a.example/1", status=503)
    options: dict[str, Any] = {"retries": 2, "retry_delay": 0.001, "max_failures": "never"}
    headgate.fetch("http://a.example/[0-1]", tmp_path / "results", retry_on=retry_on, fail_on="429,503", **options)
    assert (3, 1) == (limited.call_count, broken.call_count)


@pytest.mark.parametrize("keep", [("id", "name"), ["id", "name"], iter(["id", "name"])])
def test_columns_to_keep_are_any_list(keep: Any, tmp_path: Path, mock: headgate.testing.MockServer) -> None:
    mock.get("http://a.example/")
    source = tmp_path / "rows.csv"
    source.write_text("url,id,name\nhttp://a.example/,1,ann\n")
    headgate.fetch(source, tmp_path / "results", keep=keep, format="ndjson")
    assert {"id", "name"} <= set(pa.table(headgate.Job.open(tmp_path / "results").rows()).column_names)


def test_data_is_bytes_or_text() -> None:
    assert "grün" == planned(method="POST", data="grün").body.text == planned(data="grün".encode()).body.text


def test_limits_of_hosts_are_for_all_of_them_or_for_those_that_are_named() -> None:
    def limits(**options: Any) -> list[tuple[str | None, float]]:
        found = headgate.plan(URLS, assume_latency=1.0, **options).ceilings
        return [(each.host, each.limit) for each in found if each.option in options]

    assert [] == limits(rate_per_host=None)
    assert [("a.example", 10.0)] == limits(rate_per_host="10/s") == limits(rate_per_host={"*": "10/s"})
    assert [("a.example", 5.0)] == limits(rate_per_host={"a.example": "5/s", "*": "10/s"})
    assert [("a.example", 10.0)] == limits(rate_per_host={"b.example": "5/s", "*": "10/s"})
    assert [("a.example", 8.0)] == limits(concurrency_per_host=8)
    assert [("a.example", 2.0)] == limits(concurrency_per_host={"a.example": 2, "*": "auto"})


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("must be text such as '1.5/s', not float", 1.5),
        ("must be text such as '5/s', not int", {"a": 5}),
        ("can't be list: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", ["10/s"]),
        ("can't be None: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", {"a": None}),
        ("must name hosts in text, not None: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", {None: "5/s"}),
    ],
)
def test_a_wrong_limit_of_hosts_is_refused_with_the_right_forms(expected: str, value: object) -> None:
    assert f"rate_per_host {expected}" == mistake("rate_per_host", value)


@pytest.mark.parametrize("share", [1, "1", "50%"])
def test_a_job_stops_at_a_number_or_a_share_of_failed_rows(
    share: Any, mock: headgate.testing.MockServer, tmp_path: Path
) -> None:
    mock.get(prefix="http://a.example/", status=503)
    with pytest.raises(headgate.JobStopped):
        headgate.fetch("http://a.example/[1-100000]", tmp_path / "out", retries=0, max_failures=share, concurrency=1)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_is_text_or_the_content_of_a_file(
    ending: str, mock: headgate.testing.MockServer, tmp_path: Path
) -> None:
    def authorization(**options: Any) -> str | None:
        headgate.fetch("http://a.example/[1-1]", tmp_path / "results", if_exists="overwrite", **options)
        return mock.calls[-1].request.headers["authorization"]

    mock.get(prefix="http://a.example/")
    file = tmp_path / "secret"
    file.write_bytes(f"abc{ending}".encode())
    assert "Bearer abc" == authorization(bearer="abc") == authorization(bearer=file)
    file.write_bytes(f"grün:{ending}".encode())
    basic = f"Basic {base64.b64encode('grün:'.encode()).decode()}"
    assert basic == authorization(user="grün:") == authorization(user=file)


def test_names_of_secret_headers_are_one_or_a_list() -> None:
    for names in ("x-a", ["x-a"], iter(["x-a"])):
        assert ("x-a", "***") in planned(headers={"x-a": "1"}, secret_headers=names).headers
    assert ("x-a", "1") in planned(headers={"x-a": "1"}).headers


@pytest.mark.parametrize(
    ("content", "expected"), [(b"\xffsecret", "is not UTF-8"), (b"secret" * 1024**2, "is longer than 1 MiB")]
)
def test_a_file_that_holds_no_secret_is_refused_without_a_word_of_it(
    content: bytes, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    assert f"bearer {expected}" == mistake("bearer", file)


def test_a_file_without_a_proxy_does_not_mean_that_none_is_used(tmp_path: Path) -> None:
    file = tmp_path / "proxies"
    file.write_text(" http://a:1\n\nhttp://b:2\n")
    assert "-x http://a:1 " in planned(proxy=file).curl
    file.write_text("\n")
    assert "proxy is empty" == mistake("proxy", file)


@pytest.mark.parametrize(
    ("expected", "option", "value"),
    [
        ("must be one path or text, not list", "output", ["a.txt", "b.txt"]),
        ("must be a path, text, or a list of them, not None", "input", None),
        ("must be a path, text, or a list of them, not bytes", "input", b"a.txt"),
        ("must be one path or text, not int", "input", ["a.txt", 5]),
        ("must be one path or text, not None", "input", ["a.txt", None]),
        ("must be one path or text, not bytes", "output", b"a.txt"),
        ("contains a lone surrogate, which UTF-8 can't encode", "output", "a\ud800"),
        ("must be a list of columns: write ['id']", "keep", "id"),
        ("must be a list of columns, each of them text", "keep", None),
        ("must be a list of columns, each of them text", "keep", ["id", 5]),
        (f"must be a mapping or pairs, not str: {WRITE}", "headers", "Accept: text/html"),
        (f"must be a mapping or pairs, not None: {WRITE}", "headers", None),
        (f"must contain pairs of name and value, not str: {WRITE}", "headers", ["Accept: text/html", "b: c"]),
        (f"must contain pairs of name and value, not str: {WRITE}", "headers", ["ab"]),
        ("must have values that are text: that of 'A' is int", "headers", {"A": 5}),
        ("must have names that are text, not bytes", "headers", [(b"A", "5")]),
        (f"must be text or a list of statuses, not int: {WRITE_STATUSES}", "fail_on", 503),
        (f"must be text or a list of statuses, not None: {WRITE_STATUSES}", "fail_on", None),
        (f"must be text or a list of statuses, not bytes: {WRITE_STATUSES}", "fail_on", b"503"),
        (f"must contain numbers and text, not float: {WRITE_STATUSES}", "fail_on", [503.0, 1.5]),
        (f"must contain numbers and text, not bool: {WRITE_STATUSES}", "fail_on", [True]),
        (f"must be text or a list of texts and statuses: {WRITE_KINDS}", "only", [5.5]),
        (f"must be text or a list of texts and statuses: {WRITE_KINDS}", "only", b"timeout"),
        ("is empty: name error kinds or statuses, or leave it out to retry all failed rows", "only", []),
        (f"must be text or a list of failures, not float: {WRITE_FAILURES}", "retry_on", 4.5),
        (f"must contain numbers and text, not bool: {WRITE_FAILURES}", "retry_on", [True]),
        ("must be text such as '50%', or a number of rows, not float", "max_failures", 0.5),
        ("must be text such as '50%', or a number of rows, not bool", "max_failures", True),
        ("must be text, or the path of a file, not bytes", "bearer", b"secret"),
        ("must be text, or the path of a file, not tuple", "user", ("me", "secret")),
        ("can't read '/no/such': no such file or directory", "bearer", Path("/no/such")),
        ("can't read '/': is a directory", "user", Path("/")),
        ("must be the name of a header or a list of names, each of them text", "secret_headers", None),
        ("must be the name of a header or a list of names, each of them text", "secret_headers", ["x-a", 5]),
        (f"must be a mapping of names to paths, text or a list, not int: {WRITE_SELECTION}", "extract", 3),
        (f"must be a mapping of names to paths, text or a list, not bytes: {WRITE_SELECTION}", "extract", b"a=$.a"),
        (f"must be a mapping of names to paths, text or a list, not None: {WRITE_SELECTION}", "extract", {"a": None}),
        (
            f"must be a mapping of names to paths, text or a list, not dict: {WRITE_SELECTION}",
            "extract",
            [{"a": "$"}],
        ),
        ("must be a list of columns, each of them text, not int: write 'a,b' or ['a', 'b']", "drop", 3),
        (
            "must be a list of columns, each of them text, not None: write 'a,b' or ['a', 'b']",
            "drop",
            ["a", None],
        ),
        ("must be text or a list, each of them text, not dict", "resolve", {"a": "b"}),
        ("must be text or a list, each of them text, not int", "resolve", ["a=b", 5]),
        ("must be a port or a list of ports, not None: write 443 or [443, 8443]", "allow_port", None),
        ("must be a port or a list of ports, not bool: write 443 or [443, 8443]", "allow_port", [443, True]),
        ("must be bytes or text, not dict", "data", {"a": 1}),
        ("contains a lone surrogate, which UTF-8 can't encode", "data", "a\ud800"),
    ],
)
def test_each_mistake_is_named_once(expected: str, option: str, value: object) -> None:
    assert f"{option} {expected}" == mistake(option, value)
