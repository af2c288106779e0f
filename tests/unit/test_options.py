import dataclasses
import inspect
from typing import Any

import pytest

from headgate import _options
from headgate._options import FetchOptions

GOOD: dict[str, Any] = {"input": "urls.txt", "output": "results"}


def mistakes(**changes: Any) -> list[str]:
    return [f"{mistake.option} {mistake.message}" for mistake in FetchOptions(**GOOD | changes).mistakes()]


def test_the_defaults_are_right() -> None:
    assert mistakes() == []


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("input is missing: name a file, a URL with ranges, or - for lines on standard input", {"input": ""}),
        (
            "output is missing: name a directory for the results, or - for NDJSON on standard output",
            {"output": None},
        ),
        ("output keeps nothing with the format none: leave one of them out", {"format": "none"}),
        ("format must be one of parquet, ndjson, none, not 'xml'", {"format": "xml"}),
        ("format parquet cannot go to standard output: use ndjson, or name a directory", {"output": "-"}),
        ("url_column is empty: name a column of the input", {"url_column": ""}),
        ("url_column must be text, not int", {"url_column": 5}),
        ("fresh must be True or False, not 'no'", {"fresh": "no"}),
        ("head must be at least 0, not -1", {"head": -1}),
        ("concurrency must be at least 1, not 0", {"concurrency": 0}),
        ("concurrency must be an int, not str", {"concurrency": "10"}),
        ("concurrency must be an int, not bool", {"concurrency": True}),
        ("head must be at most 9223372036854775807, not 9223372036854775808", {"head": 2**63}),
        ("threads must be at least 1, not 0", {"threads": 0}),
        ("timeout_s must be more than 0 seconds and at most 31536000, not 0", {"timeout_s": 0}),
        ("timeout_s must be more than 0 seconds and at most 31536000, not nan", {"timeout_s": float("nan")}),
        ("timeout_s must be a number of seconds, not None", {"timeout_s": None}),
        (
            "connect_timeout_s must be more than 0 seconds and at most 31536000, not inf",
            {"connect_timeout_s": float("inf")},
        ),
        ("max_body_bytes must be at least 0, not -1", {"max_body_bytes": -1}),
        ("grace_s must be 0 seconds or more and at most 31536000, not -1", {"grace_s": -1}),
        ("part_bytes must be at least 1, not 0", {"part_bytes": 0}),
        ("method 'GET /' is no HTTP method", {"method": "GET /"}),
        ("method must be text, not int", {"method": 5}),
        ("user_agent must be text, not None", {"user_agent": None}),
        ("user_agent holds a control character", {"user_agent": "a\r\nb"}),
        ("fail_on '50x' is no status: write codes and classes, as 429,5xx, or none", {"fail_on": "408, 50x"}),
        ("fail_on '099' is no status: write codes and classes, as 429,5xx, or none", {"fail_on": "099"}),
        ("fail_on '' is no status: write codes and classes, as 429,5xx, or none", {"fail_on": "408,"}),
        ("fail_on 'none' is no status: write codes and classes, as 429,5xx, or none", {"fail_on": "408,none"}),
        ("fail_on must be text, not int", {"fail_on": 503}),
        ("headers 'a b' is no name of a header", {"headers": [("a b", "c")]}),
        ("headers x-a holds a control character", {"headers": [("x-a", "b\r\nx-c: d")]}),
    ],
)
def test_each_mistake_is_named(expected: str, changes: dict[str, Any]) -> None:
    assert [expected] == mistakes(**changes)


def test_all_mistakes_are_named_at_once() -> None:
    assert ["head", "concurrency", "method"] == [
        mistake.option for mistake in FetchOptions(**GOOD, head=-1, concurrency=0, method="").mistakes()
    ]


@pytest.mark.parametrize("fail_on", ["", "none", "503", " 4xx, 5XX ,999"])
def test_failures_are_statuses_and_classes_or_none(fail_on: str) -> None:
    assert mistakes(fail_on=fail_on) == []


def test_a_grace_of_zero_is_allowed() -> None:
    assert mistakes(grace_s=0) == []


@pytest.mark.parametrize(
    ("expected", "method", "data"), [("GET", None, None), ("POST", None, b""), ("PUT", "PUT", b"")]
)
def test_the_method_is_post_where_there_is_data(expected: str, method: str | None, data: bytes | None) -> None:
    assert expected == _options.method_for(method, data)


@pytest.mark.parametrize(
    ("expected", "form", "output"),
    [("parquet", None, "results"), ("ndjson", None, "-"), ("parquet", "parquet", "-"), ("none", "none", None)],
)
def test_standard_output_takes_ndjson(expected: str, form: _options.Format | None, output: str | None) -> None:
    assert expected == _options.format_for(form, output)


def test_each_default_is_one_named_constant() -> None:
    named = [value for name, value in vars(_options).items() if name.startswith("DEFAULT_")]
    for field in dataclasses.fields(FetchOptions):
        if field.default not in (dataclasses.MISSING, None, False, True, ()):
            assert any(field.default is value for value in named), field.name


def test_options_cannot_be_changed() -> None:
    options = FetchOptions(**GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.concurrency = 1  # type: ignore[misc] # that is the point


def test_options_are_keywords_only() -> None:
    kinds = {parameter.kind for parameter in inspect.signature(FetchOptions).parameters.values()}
    assert {inspect.Parameter.KEYWORD_ONLY} == kinds
