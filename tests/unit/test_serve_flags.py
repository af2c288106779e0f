"""The flags of `headgate serve`: durations with units, and bursts in requests."""

import pytest

from headgate.cli import serve
from headgate.cli._values import Values
from headgate.jobs._server import DEFAULT_API_BURST_S
from support.command import mistakes


def values(*arguments: str) -> Values:
    read = serve.parser().read(arguments)
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ((1.5, 1.5), "1.5"),
        ((1.5, 1.5), "1.5s"),
        ((0.0, 3.0), "0..3"),
        ((0.0, 3.0), "0..3s"),
        ((0.5, 2.0), "500ms..2s"),
        ((60.0, 120.0), "1m..2m"),
        ((0.01, 0.06), "10..60ms"),
        ((0.01, 0.06), "10..60 ms"),
        ((60.0, 120.0), "1..2m"),
        ((0.01, 60.0), "10ms..60"),
        ((1.0, 1000.0), "1..1e3s"),
    ],
)
def test_a_delay_is_a_duration_or_a_range_of_durations(expected: tuple[float, float], text: str) -> None:
    assert expected == values("--delay", text).span("delay")


def test_no_file_can_be_standard_output_which_has_the_address() -> None:
    assert [
        f"{flag} must be a file, not '-': standard output has the address of the server"
        for flag in ("--log", "--self-signed")
    ] == mistakes("serve", "--log", "-", "--self-signed", "-")


@pytest.mark.parametrize("text", ["", "..", "1..", "3..1", "-1", "-1s..2s", "nan", "soon", "1 parsec"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    read = values("--delay", text)
    assert read.span("delay") is None
    assert [f"--delay must be a duration such as 1.5s, or a range such as 0..3s, not {text!r}"] == read.mistakes


@pytest.mark.parametrize(
    ("expected_s", "arguments"),
    [
        (DEFAULT_API_BURST_S, ["--api-rate", "500/s"]),
        (0.02, ["--api-rate", "500/s", "--api-burst", "10"]),
        (3600.0, ["--api-rate", "2/h", "--api-burst", "2"]),
        (0.02, ["--api-rate", "500/s", "--api-burst", "10", "--api-tokens", "100/s"]),
        (0.1, ["--api-burst", "10", "--api-tokens", "100/s"]),
    ],
)
def test_a_burst_is_a_number_of_requests(expected_s: float, arguments: list[str]) -> None:
    limits = serve.api_limits(values(*arguments))
    assert limits is not None
    assert expected_s == pytest.approx(limits.burst_s)


def test_the_shares_of_first_attempts_that_fail_are_at_most_all_of_them() -> None:
    assert ["--api-fail-first must be at most 100 %, with --api-html-first and --api-cut-first"] == mistakes(
        "serve", "--api-fail-first", "60%", "--api-html-first", "50%"
    )
