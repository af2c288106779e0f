import dataclasses
import inspect
from typing import Any, get_args

import pytest

import headgate
from headgate._headgate import JOB_OPTIONS, options_as_read
from headgate._option import OptionSet
from headgate.jobs._job_options import FetchOptions, RetryOptions
from headgate.jobs._option_entry import JobOption, Redirects
from headgate.jobs._options import ENTRIES, FETCH, RETRY, SET

GOOD: dict[str, Any] = {"input": "urls.txt", "output": "results"}


ALL_OF_A_TOP_LEVEL_DOMAIN = "would be all hosts of a public suffix: name more of the domain, or use *"
NO_ORIGIN = "is not an origin: write https://api.example.com, https://*.example.com, or * for all"


def mistake(**changes: Any) -> str:
    """Returns the message of the error that refuses these options."""
    with pytest.raises(headgate.UsageError) as raised:
        headgate.fetch(**GOOD | changes)
    return str(raised.value)


def accept(**options: Any) -> None:
    """Fails if these options are refused."""
    headgate.plan("http://a.example/[1-2]", **options)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (
            "input is missing: name a file, a directory, a URL with ranges, or - for lines on standard input",
            {"input": ""},
        ),
        (
            "output is missing: name a directory for the results, or - for NDJSON on standard output",
            {"output": None},
        ),
        ("output keeps nothing with the format none: leave one of them out", {"format": "none"}),
        ("format must be one of parquet, ndjson, none, not 'xml'", {"format": "xml"}),
        (
            "format parquet can't go to standard output: use ndjson, or name a directory",
            {"output": "-", "format": "parquet"},
        ),
        ("url_column is empty: name a column of the input", {"url_column": ""}),
        ("url_column must be text, not int", {"url_column": 5}),
        ("url_only must be True or False, not 'no'", {"url_only": "no"}),
        ("max_rows must be at least 1, not -1", {"max_rows": -1}),
        ("concurrency must be at least 1, not 0", {"concurrency": 0}),
        ("concurrency must be an int, not str", {"concurrency": "10"}),
        ("concurrency must be an int, not bool", {"concurrency": True}),
        ("max_rows must be at most 9223372036854775807, not 9223372036854775808", {"max_rows": 2**63}),
        ("threads must be at least 1, not 0", {"threads": 0}),
        ("timeout must be more than 0 seconds and at most 31536000, not 0", {"timeout": 0}),
        ("timeout must be more than 0 seconds and at most 31536000, not nan", {"timeout": float("nan")}),
        ("timeout must be a number of seconds, not None", {"timeout": None}),
        (
            "connect_timeout must be more than 0 seconds and at most 31536000, not inf",
            {"connect_timeout": float("inf")},
        ),
        ("max_body_size must be at least 0, not -1", {"max_body_size": -1}),
        ("max_memory must be at least 1048576, not 1048575", {"max_memory": 1024**2 - 1}),
        ("shutdown_timeout must be 0 seconds or more and at most 31536000, not -1", {"shutdown_timeout": -1}),
        ("part_size must be at least 1, not 0", {"part_size": 0}),
        ("method 'GET /' is not an HTTP method", {"method": "GET /"}),
        (
            "method 'GET,POST' is not an HTTP method: the only list is HEAD,GET, which sends GET where HEAD is refused",
            {"method": "GET,POST"},
        ),
        ("method must be text, not int", {"method": 5}),
        ("user_agent must be text, not None", {"user_agent": None}),
        ("user_agent contains a control character", {"user_agent": "a\r\nb"}),
        ("user_agent contains a lone surrogate, which UTF-8 can't encode", {"user_agent": "a\ud800"}),
        ("input contains a lone surrogate, which UTF-8 can't encode", {"input": "a\udcff"}),
        ("url_column contains a lone surrogate, which UTF-8 can't encode", {"url_column": "a\ud800"}),
        ("keep contains a lone surrogate, which UTF-8 can't encode", {"keep": ("id", "a\ud800")}),
        ("dns_server contains a lone surrogate, which UTF-8 can't encode", {"dns_server": "a\ud800"}),
        ("headers x-a contains a lone surrogate, which UTF-8 can't encode", {"headers": [("x-a", "a\ud800")]}),
        ("secret_headers 'a b' is not a header name", {"secret_headers": ("x-a", "a b")}),
        ("bearer is empty", {"bearer": ""}),
        ("bearer contains a control character", {"bearer": "secret\n"}),
        ("user has no password: write NAME:PASSWORD, or NAME: where it is empty", {"user": "secret"}),
        ("user contains a control character", {"user": "me:secret\n"}),
        (
            "fail_on '50x' is not a status: write codes and classes, such as unauthorized,429,5xx, or none",
            {"fail_on": "408, 50x"},
        ),
        (
            "fail_on '099' is not a status: write codes and classes, such as unauthorized,429,5xx, or none",
            {"fail_on": "099"},
        ),
        (
            "fail_on '' is not a status: write codes and classes, such as unauthorized,429,5xx, or none",
            {"fail_on": "408,"},
        ),
        (
            "fail_on 'none' is not a status: write codes and classes, such as unauthorized,429,5xx, or none",
            {"fail_on": "408,none"},
        ),
        ("headers 'a b' is not a header name", {"headers": [("a b", "c")]}),
        ("rate must be text such as '100/s', not int", {"rate": 100}),
        (
            "rate '1/0s' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s",
            {"rate": "1/0s"},
        ),
        ("burst must be at most 4294967295, not 4294967296", {"burst": 2**32}),
        (
            "cost_rate needs the cost of each row: give cost_column, cost_estimate='body-bytes' or cost_from_response",
            {"cost_rate": "9/s"},
        ),
        ("total_timeout must be a number of seconds, not str", {"total_timeout": "9"}),
        ("retry_delay must be 0 seconds or more and at most 31536000, not -1", {"retry_delay": -1}),
        ("headers x-a contains a control character", {"headers": [("x-a", "b\r\nx-c: d")]}),
        ("ipv6 can't be combined with ipv4: leave one of them out", {"ipv4": True, "ipv6": True}),
        (
            "http2_prior_knowledge can't be combined with http1_1: leave one of them out",
            {"http1_1": True, "http2_prior_knowledge": True},
        ),
        ("key is the key of a client certificate: give cert, too", {"key": "me.key"}),
        (
            "truncate_body can't be combined with no_body, which reads no bodies",
            {"no_body": True, "truncate_body": True},
        ),
        ("form can't be combined with json: a request has one body", {"json": "{}", "form": ("a=b",)}),
        ("data_urlencode can't be combined with data: a request has one body", {"data": b"", "data_urlencode": ("a",)}),
        (
            "body_file_column can't be combined with form: a request has one body",
            {"form": ("a=b",), "body_file_column": "path"},
        ),
        (
            "body_column can't be combined with json: a request has one body",
            {"json": "{}", "body_column": "text"},
        ),
        (
            "url_column can't be combined with url, which makes the URLs: leave one of them out",
            {"url": "http://h/{id}", "url_column": "link"},
        ),
        ("keep_redirects has no effect with redirects='none'", {"keep_redirects": True, "redirects": "none"}),
        ("redirect_cookies has no effect with redirects='none'", {"redirect_cookies": True, "redirects": "none"}),
        ("redirects must be one of follow, same-origin, none, not 'all'", {"redirects": "all"}),
        ("max_redirects must be at least 1, not 0; to follow none, use redirects none", {"max_redirects": 0}),
        (
            f"credentials_for 'https://*.com' {ALL_OF_A_TOP_LEVEL_DOMAIN}",
            {"credentials_for": ("https://*.com",)},
        ),
        (
            f"credentials_for 'api.example.com' {NO_ORIGIN}",
            {"credentials_for": ("api.example.com",)},
        ),
        ("max_redirects must be at most 1000, not 1001; to follow none, use redirects none", {"max_redirects": 1001}),
        ("http2_streams must be at least 1, not 0", {"http2_streams": 0}),
        ("range 'bytes=0-1' is not a range of bytes: write 0-499, 500- or -500", {"range": "bytes=0-1"}),
        ("range '0-9,5-2' ends before it begins", {"range": "0-9,5-2"}),
        ("compress_body must be one of gzip, zstd, not 'br'", {"compress_body": "br"}),
        (
            "compress_body can't be combined with body_file_column: files are sent as they are",
            {"compress_body": "gzip", "body_file_column": "path"},
        ),
        (
            "compress_body can't be combined with files of form: files are sent as they are",
            {"compress_body": "zstd", "form": ("a=@b", "file=@{path}")},
        ),
        ("local_address 'eth0' is not an IP address", {"local_address": ("127.0.0.1", "eth0")}),
        ("network must be one of any, public, not 'private'", {"network": "private"}),
        (
            "allow_net `10/8` is not a network: write one such as 10.0.0.0/8 or fd00::/8, or an address",
            {"allow_net": ("127.0.0.1", "10/8")},
        ),
        (
            "deny_net `010.0.0.0/8` is not a network: write one such as 10.0.0.0/8 or fd00::/8, or an address",
            {"deny_net": ("010.0.0.0/8",)},
        ),
        ("allow_port 'http' is not a port", {"allow_port": ("443", "http")}),
        ("allow_port '0' is not a port", {"allow_port": ("0",)}),
        ("tls_min must be one of 1.2, 1.3, not '1.1'", {"tls_min": "1.1"}),
        ("tls_server_name '' is not the name of a host", {"tls_server_name": ""}),
    ],
)
def test_each_mistake_is_named(expected: str, changes: dict[str, Any]) -> None:
    assert expected == mistake(**changes)


NAME_SERVERS = ["system", "9.9.9.9", "9.9.9.9:5353", "::1", "2620:fe::9", "[::1]", "[::1]:5353", "[9.9.9.9]"]
NO_NAME_SERVERS = ["", "foo", "dns.example", "9.9.9.9:", "9.9.9.9:0", "9.9.9.9:65536", ":53", "9.9.9", "[::1", "[]:53"]


@pytest.mark.parametrize("dns", NAME_SERVERS)
def test_a_name_server_that_the_engine_knows_is_no_mistake(dns: str) -> None:
    assert options_as_read(Given()) != options_as_read(Given(dns_server=dns))
    accept(dns_server=dns)


@pytest.mark.parametrize("dns", NO_NAME_SERVERS)
def test_a_name_server_that_the_engine_would_refuse_is_a_mistake(dns: str) -> None:
    expected = f"dns_server must be the IP address of a DNS server, with or without a port, or system, not {dns!r}"
    assert expected == mistake(dns_server=dns)


def test_all_mistakes_are_named_at_once() -> None:
    expected = (
        "max_rows must be at least 1, not -1; method '' is not an HTTP method; concurrency must be at least 1, not 0"
    )
    assert expected == mistake(max_rows=-1, concurrency=0, method="")


@pytest.mark.parametrize("fail_on", ["", "none", "503", " 4xx, 5XX ,999"])
def test_failures_are_statuses_and_classes_or_none(fail_on: str) -> None:
    accept(fail_on=fail_on)


def test_a_grace_of_zero_is_allowed() -> None:
    accept(shutdown_timeout=0)


@pytest.mark.parametrize(
    ("expected", "form", "output"),
    [("Parquet", None, "results"), ("Ndjson", None, "-"), ("Parquet", "parquet", "-"), ("None", "none", None)],
)
def test_standard_output_takes_ndjson(expected: str, form: str | None, output: str | None) -> None:
    assert f" format: {expected}" in options_as_read(FetchOptions(input="urls.txt", output=output, format=form))


def test_no_repr_of_options_shows_what_may_be_secret() -> None:
    secret = "hunter" + "2"
    given = {
        "headers": [("X-A", secret)],
        "bearer": secret,
        "user": f"me:{secret}".encode(),
        "data": secret.encode(),
        "header_templates": [("X-B", secret)],
        "json": secret,
        "data_urlencode": (f"a={secret}",),
        "form": (f"a={secret}",),
        "proxy": (f"http://me:{secret}@proxy",),
        "url": f"http://me:{secret}@host/{{id}}",
    }
    shown = repr(FetchOptions(**GOOD | {"input": f"http://me:{secret}@host/"} | given))
    assert secret not in shown
    assert "input=('http://host/',)" in shown
    assert "headers=***" in shown
    assert secret not in repr(RetryOptions(output="results", headers=[("X-A", secret)], bearer=secret))
    assert secret not in options_as_read(Given(**{name: value for name, value in given.items() if name in _SECRETS}))


_SECRETS = ("headers", "bearer", "user", "header_templates", "proxy")
"""Options whose values the messages of the engine leave out."""


def test_options_cannot_be_changed() -> None:
    options = FetchOptions(**GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.concurrency = 1


OF_PYTHON = {"auth", "metrics", "progress"}
"""Options that the engine does not have."""

ALL = {name: entry.option for options in (FETCH, RETRY) for name, entry in options.entries.items()}
DEFAULTS: dict[str, Any] = vars(RetryOptions(output="results")) | vars(FetchOptions(**GOOD))
OTHER: dict[str, Any] = {
    "host_down_after": 60.0,
    "network_down_after": 60.0,
    "body_column": "other",
    "body_file_column": "other",
    "checksum_column": "other",
    "cost_from_response": "other",
    "data_urlencode": ("other={id}",),
    "form": ("other={id}",),
    "header_templates": [("other", "{id}")],
    "if_modified_since_column": "other",
    "if_none_match_column": "other",
    "json": '{"other": "{id}"}',
    "drop": ("body",),
    "require": ("other",),
    "save_format": "tar",
    "save_to": "{row}",
    "extract": ("other=$.other",),
    "url": "http://other/{id}",
    "bearer": "other",
    "burst": 3,
    "commit_interval": 3.0,
    "keep_replaced": 3.0,
    "max_memory": 2**20,
    "cacert": "other.pem",
    "cert": "other.pem",
    "compress_body": "gzip",
    "first_byte_timeout": 3.0,
    "idle_timeout": 3.0,
    "interface": "other",
    "network": "public",
    "allow_net": ("127.0.0.0/8",),
    "deny_net": ("127.0.0.0/8",),
    "allow_port": ("8443",),
    "key": "other.pem",
    "local_address": ("127.0.0.3",),
    "proxy": ("http://other",),
    "range": "3-",
    "resolve": ("other:80:127.0.0.3",),
    "tls_server_name": "other",
    "tls_min": "1.3",
    "concurrency_per_host": "auto",
    "cost_column": "other",
    "cost_estimate": "body-bytes",
    "total_timeout": 3.0,
    "data": b"other",
    "dns_server": "9.9.9.9",
    "fail_on": "404",
    "format": "ndjson",
    "max_rows": 3,
    "headers": [("other", "1")],
    "headers_column": "other",
    "upload_root": "other",
    "keep": ("other",),
    "host_by": "origin",
    "max_connections_per_host": 3,
    "max_idle_connections": 3,
    "method": "PUT",
    "method_column": "other",
    "only": ("timeout",),
    "rate": "3/s",
    "cost_rate": "3/s",
    "rate_per_host": "3/s,a.example=5/s",
    "if_exists": "overwrite",
    "retry_on": "connection_closed",
    "redirects": "same-origin",
    "credentials_for": ("https://other",),
    "secret_headers": ("other",),
    "max_failures": "50%",
    "min_free": 3,
    "max_requests": 3,
    "token_command": "other",
    "token_ttl": 3,
    "max_cost": 3,
    "threads": 3,
    "url_column": "other",
    "user": b"other:",
    "user_agent": "other",
}
"""A value other than the default, for each option that is neither a number nor a switch."""


BESIDE: dict[str, dict[str, Any]] = {
    "cost_column": {"cost_rate": "3/s"},
    "cost_estimate": {"cost_rate": "3/s"},
    "cost_rate": {"cost_estimate": "body-bytes"},
    "max_cost": {"cost_estimate": "body-bytes"},
}
"""Other options that an option needs to have an effect."""


class Given:
    """Some options by their names, as the engine reads them."""

    def __init__(self, **options: object) -> None:
        vars(self).update(options)


def test_a_column_says_what_a_row_costs_where_nothing_else_does() -> None:
    read = options_as_read(FetchOptions(**GOOD, cost_rate="10/s", cost_column="tokens"))
    assert 'cost_column: Some("tokens")' in read
    assert 'of: Column("tokens")' in read


@pytest.mark.parametrize("name", sorted(ALL.keys() - OF_PYTHON))
def test_the_engine_reads_each_option_and_has_the_same_default(name: str) -> None:
    default = DEFAULTS[name]
    other = OTHER[name] if name in OTHER else not default if isinstance(default, bool) else default + 1
    assert options_as_read(Given()) == options_as_read(Given(**{name: default}))
    beside = BESIDE.get(name, {})
    assert options_as_read(Given(**beside)) != options_as_read(Given(**beside | {name: other}))


def test_the_engine_speaks_of_options_that_there_are() -> None:
    # The host is one of the local server, and what is shown is nothing that the engine knows.
    assert ALL.keys() - OF_PYTHON | {"input", "output", "host"} == ENTRIES.keys()
    assert get_args(Redirects) == ENTRIES["redirects"].choices


def test_the_engine_knows_what_can_be_set_while_a_job_runs() -> None:
    assert list(SET.entries) == [name for name, option in ENTRIES.items() if option.settable]
    given = Given(given=("rate", "concurrency"))
    assert options_as_read(given) != options_as_read(Given())
    assert FetchOptions(**GOOD, rate="5/s", retry_on="429", format="ndjson").given == ("rate", "retry_on")


def test_the_engine_stores_the_options_that_identify_a_job() -> None:
    assert {name for name, option in ALL.items() if isinstance(option, JobOption) and option.of_job} == set(JOB_OPTIONS)


@pytest.mark.parametrize(("function", "options"), [(headgate.fetch, FETCH), (headgate.Job.retry, RETRY)])
def test_each_option_is_an_argument_with_its_help(function: Any, options: OptionSet[Any]) -> None:
    arguments = list(inspect.signature(function).parameters)
    assert list(options.entries) == arguments[-len(options.entries) :]
    assert "options" not in arguments
    words = " ".join((function.__doc__ or "").split())
    assert [] == [name for name, entry in options.entries.items() if f"{name}: {entry.text()}" not in words]


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"^fetch\(\) got an unexpected keyword argument 'concurency': did you mean"):
        headgate.fetch("urls.txt", "results", concurency=5)  # type: ignore[call-arg] # that is the point
    with pytest.raises(TypeError, match=r"^start\(\) got an unexpected keyword argument 'concurency': did you mean"):
        headgate.start("urls.txt", "results", concurency=5)  # type: ignore[call-arg] # as above
