from pathlib import Path

import pytest

from headgate.jobs._arguments import Arguments

WRITE_STATUSES = "write '429,5xx' or [429, '5xx']"
WRITE_FAILURES = "write 'connect,429' or ['connect', 429]"
WRITE_KINDS = "write 'timeout,status:503' or ['timeout', 'status:503']"
WRITE_SELECTION = "write {'answer': '$.answer', 'tokens:int64': '$.usage.total'} or ['answer=$.answer']"
WRITE = "give a mapping, as {'Accept': 'text/html'}, or pairs, as [('Accept', 'text/html')]"


def test_headers_keep_their_order_and_repeats() -> None:
    arguments, pairs = Arguments(), [("b", "1"), ("a", "2"), ("b", "3")]
    assert pairs == arguments.headers("headers", iter(pairs))
    assert [("b", "1"), ("a", "2")] == arguments.headers("headers", {"b": "1", "a": "2"})
    assert arguments.mistakes == []


def test_what_python_has_is_read_as_what_the_options_hold() -> None:
    arguments = Arguments()
    assert "a/b.txt" == arguments.path("input", Path("a/b.txt"))
    assert ("a/b.txt",) == arguments.inputs("input", Path("a/b.txt"))
    assert ("a/b.txt", "c") == arguments.inputs("input", (name for name in (Path("a/b.txt"), "c")))
    assert "a\udcff" == arguments.path("output", "a\udcff")
    assert arguments.path_or_none("output", None) is None
    assert "408,5xx" == arguments.statuses("fail_on", iter([408, "5xx"]))
    assert ["503, 5xx", "", ""] == [arguments.statuses("fail_on", given) for given in ("503, 5xx", "", ())]
    assert ("timeout", "status:5xx") == arguments.kinds("only", "timeout, status:5xx")
    assert [("closed",), ()] == [arguments.kinds("only", given) for given in (iter(["closed"]), None)]
    assert ("id", "name") == arguments.columns("keep", iter(["id", "name"]))
    assert "grün".encode() == arguments.data("data", "grün")
    assert arguments.mistakes == []


def test_limits_of_hosts_are_for_all_of_them_or_for_those_that_are_named() -> None:
    arguments = Arguments()
    assert arguments.per_host("rate_per_host", None) is None
    assert (("*", "10/s"),) == arguments.per_host("rate_per_host", "10/s")
    assert (("a.example", "5/s"), ("*", "10/s")) == arguments.per_host(
        "rate_per_host", {"a.example": "5/s", "*": "10/s"}
    )
    assert (("*", "8"),) == arguments.per_host("concurrency_per_host", 8)
    assert (("a.example", "2"), ("*", "auto")) == arguments.per_host(
        "concurrency_per_host", {"a.example": 2, "*": "auto"}
    )
    assert arguments.mistakes == []


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("can't be float: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", 1.5),
        ("can't be list: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", ["10/s"]),
        ("can't be None: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", {"a": None}),
        ("must name hosts in text, not None: write '10/s' or {'api.example.com': '5/s', '*': '10/s'}", {None: "5/s"}),
    ],
)
def test_what_is_no_limit_of_hosts_is_refused_with_what_is(expected: str, value: object) -> None:
    arguments = Arguments()
    arguments.per_host("rate_per_host", value)
    assert [expected] == [mistake.message for mistake in arguments.mistakes]


def test_failures_and_shares_are_read_as_text() -> None:
    arguments = Arguments()
    assert ["connect,429", "connect,429", ""] == [
        arguments.failures("retry_on", given) for given in ("connect,429", ["connect", 429], ())
    ]
    assert ["50%", "1000", None] == [arguments.share("stop_when_failed", given) for given in ("50%", 1000, None)]
    assert arguments.mistakes == []


def test_a_secret_is_text_or_stands_in_a_file(tmp_path: Path) -> None:
    arguments, file = Arguments(), tmp_path / "secret"
    assert "abc" == arguments.token("bearer", "abc")
    for ending in ("", "\n", "\r\n"):
        file.write_bytes(f"grün:{ending}".encode())
        assert ("grün:", "grün:".encode()) == (arguments.token("bearer", file), arguments.user("user", file))
    assert arguments.token("bearer", None) is None
    assert arguments.user("user", None) is None
    assert ("x-a",) == arguments.names("secret_headers", "x-a") == arguments.names("secret_headers", iter(["x-a"]))
    assert arguments.mistakes == []


@pytest.mark.parametrize(
    ("content", "expected"), [(b"\xffsecret", "is not UTF-8"), (b"secret" * 1024**2, "is longer than 1 MiB")]
)
def test_a_file_that_holds_no_secret_is_refused_without_a_word_of_it(
    content: bytes, expected: str, tmp_path: Path
) -> None:
    arguments, file = Arguments(), tmp_path / "secret"
    file.write_bytes(content)
    assert arguments.token("bearer", file) is None
    assert [expected] == [mistake.message for mistake in arguments.mistakes]


def test_a_file_without_a_proxy_does_not_mean_that_none_is_used(tmp_path: Path) -> None:
    arguments, file = Arguments(), tmp_path / "proxies"
    file.write_text(" http://a:1\n\nhttp://b:2\n")
    assert ("http://a:1", "http://b:2") == arguments.proxies("proxy", file)
    assert arguments.mistakes == []
    file.write_text("\n")
    arguments.proxies("proxy", file)
    assert [f"{str(file)!r} has nothing in it"] == [mistake.message for mistake in arguments.mistakes]


@pytest.mark.parametrize(
    ("expected", "option", "value"),
    [
        ("must be one path or text, not list", "path", ["a.txt", "b.txt"]),
        ("must be a path, text, or a list of them, not None", "inputs", None),
        ("must be a path, text, or a list of them, not bytes", "inputs", b"a.txt"),
        ("must be one path or text, not int", "inputs", ["a.txt", 5]),
        ("must be one path or text, not None", "path", None),
        ("must be one path or text, not bytes", "path", b"a.txt"),
        ("holds a lone surrogate, which UTF-8 can't encode", "path", "a\ud800"),
        ("must be a list of columns: write ['id']", "columns", "id"),
        ("must be a list of columns, each of them text", "columns", None),
        ("must be a list of columns, each of them text", "columns", ["id", 5]),
        (f"must be a mapping or pairs, not str: {WRITE}", "headers", "Accept: text/html"),
        (f"must be a mapping or pairs, not None: {WRITE}", "headers", None),
        (f"must hold pairs of name and value, not str: {WRITE}", "headers", ["Accept: text/html", "b: c"]),
        (f"must hold pairs of name and value, not str: {WRITE}", "headers", ["ab"]),
        ("must have values that are text: that of 'A' is int", "headers", {"A": 5}),
        ("must have names that are text, not bytes", "headers", [(b"A", "5")]),
        (f"must be text or a list of statuses, not int: {WRITE_STATUSES}", "statuses", 503),
        (f"must be text or a list of statuses, not None: {WRITE_STATUSES}", "statuses", None),
        (f"must be text or a list of statuses, not bytes: {WRITE_STATUSES}", "statuses", b"503"),
        (f"must hold numbers and text, not float: {WRITE_STATUSES}", "statuses", [503.0, 1.5]),
        (f"must hold numbers and text, not bool: {WRITE_STATUSES}", "statuses", [True]),
        (f"must be text or a list of texts: {WRITE_KINDS}", "kinds", [503]),
        (f"must be text or a list of texts: {WRITE_KINDS}", "kinds", b"timeout"),
        (f"is empty: {WRITE_KINDS}, or leave it out to ask all failed rows again", "kinds", []),
        (f"must be text or a list of failures, not float: {WRITE_FAILURES}", "failures", 4.5),
        (f"must hold numbers and text, not bool: {WRITE_FAILURES}", "failures", [True]),
        ("must be text such as '50%', or a number of rows, not float", "share", 0.5),
        ("must be text such as '50%', or a number of rows, not bool", "share", True),
        ("must be text, or the path of a file, not bytes", "token", b"secret"),
        ("must be text, or the path of a file, not tuple", "user", ("me", "secret")),
        ("can't read '/no/such': no such file or directory", "token", Path("/no/such")),
        ("can't read '/': is a directory", "user", Path("/")),
        ("must be the name of a header or a list of names, each of them text", "names", None),
        ("must be the name of a header or a list of names, each of them text", "names", ["x-a", 5]),
        (f"must be a mapping of names to paths, text or a list, not int: {WRITE_SELECTION}", "selection", 3),
        (f"must be a mapping of names to paths, text or a list, not bytes: {WRITE_SELECTION}", "selection", b"a=$.a"),
        (f"must be a mapping of names to paths, text or a list, not None: {WRITE_SELECTION}", "selection", {"a": None}),
        (
            f"must be a mapping of names to paths, text or a list, not dict: {WRITE_SELECTION}",
            "selection",
            [{"a": "$"}],
        ),
        ("must be a list of columns, each of them text, not int: write 'a,b' or ['a', 'b']", "listed_names", 3),
        (
            "must be a list of columns, each of them text, not None: write 'a,b' or ['a', 'b']",
            "listed_names",
            ["a", None],
        ),
        ("must be text or a list, each of them text, not dict", "texts", {"a": "b"}),
        ("must be text or a list, each of them text, not int", "texts", ["a=b", 5]),
        ("must be a port or a list of ports, not None: write 443 or [443, 8443]", "ports", None),
        ("must be a port or a list of ports, not bool: write 443 or [443, 8443]", "ports", [443, True]),
        ("must be bytes or text, not dict", "data", {"a": 1}),
        ("holds a lone surrogate, which UTF-8 can't encode", "data", "a\ud800"),
    ],
)
def test_each_mistake_is_told_once(expected: str, option: str, value: object) -> None:
    arguments = Arguments()
    getattr(arguments, option)(option, value)
    assert [(option, expected)] == [(mistake.option, mistake.message) for mistake in arguments.mistakes]
