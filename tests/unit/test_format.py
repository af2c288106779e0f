import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from headgate import _format


@pytest.mark.parametrize(
    ("expected", "number"),
    [("0", 0), ("0.6", 0.6), ("7", 7), ("667", 666.7), ("1,234,567", 1_234_567.2)],
)
def test_counts_have_thousands_separators_and_small_rates_a_digit(expected: str, number: float) -> None:
    assert expected == _format.count(number)


def test_whole_numbers_are_shown_to_the_last_digit() -> None:
    assert "9,007,199,254,740,993" == _format.count(2**53 + 1)


@pytest.mark.parametrize(
    ("expected", "number", "whole"),
    [("0 of 0 rows", 0, 0), ("1 of 1 row", 1, 1), ("2,000 of 1,000,000 rows", 2000, 1_000_000)],
)
def test_a_part_is_shown_with_the_whole(expected: str, number: int, whole: int) -> None:
    assert expected == _format.part(number, whole, "row")


def test_figures_are_grouped_in_one_file() -> None:
    package = Path(_format.__file__).parent
    files = [path.name for path in package.rglob("*.py") if re.search(r"\{[^{}]*:,", path.read_text(encoding="utf-8"))]
    assert ["_format.py"] == files


@pytest.mark.parametrize(
    ("expected", "number"),
    [
        ("0 B", 0),
        ("1023 B", 1023),
        ("1.0 KiB", 1024),
        ("1.2 MiB", 1_258_291),
        ("128 MiB", 128 * 1024**2),
        ("1.0 GiB", 1_073_700_000),
        ("2.5 TiB", 2.5 * 1024**4),
    ],
)
def test_sizes_have_binary_units(expected: str, number: float) -> None:
    assert expected == _format.size(number)


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("0.0 s", 0),
        ("4.2 s", 4.2),
        ("10 s", 9.96),
        ("59 s", 59.4),
        ("1 min 00 s", 59.96),
        ("3 min 05 s", 185),
        ("1 h 00 min", 3600),
        ("2 d 04 h", 2 * 86400 + 4 * 3600),
    ],
)
def test_durations_have_the_two_units_that_matter(expected: str, seconds: float) -> None:
    assert expected == _format.duration(seconds)


@pytest.mark.parametrize(
    ("expected", "microseconds"),
    [("870 µs", 870), ("8.1 ms", 8_123), ("21 ms", 21_456), ("999 ms", 999_400), ("1.50 s", 1_503_000)],
)
def test_latencies_have_three_digits_at_the_most(expected: str, microseconds: int) -> None:
    assert expected == _format.latency(microseconds)


@pytest.mark.parametrize(("expected", "fraction"), [("0 %", 0), ("37 %", 0.374), ("99 %", 0.9999), ("100 %", 1)])
def test_a_share_is_whole_only_at_the_end(expected: str, fraction: float) -> None:
    assert expected == _format.share(fraction)


@pytest.mark.parametrize(("expected", "number"), [("0 rows", 0), ("1 row", 1), ("1,000 rows", 1000)])
def test_one_is_singular(expected: str, number: int) -> None:
    assert expected == _format.plural(number, "row")


def test_control_characters_are_made_visible() -> None:
    assert r"\x1b[2Jgrün\n\u202e" == _format.printable("\x1b[2Jgrün\n\u202e")


@given(st.text())
def test_printable_text_is_one_printable_line(text: str) -> None:
    assert _format.printable(text).isprintable()


@given(st.floats(min_value=0, max_value=1e9))
def test_durations_never_show_sixty_of_a_unit(seconds: float) -> None:
    assert "60 s" not in _format.duration(seconds)
    assert "60 min" not in _format.duration(seconds)
