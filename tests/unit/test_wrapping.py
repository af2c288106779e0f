"""A report on a terminal is broken between words; one that goes to a file is left as it is."""

import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from headgate import cli
from support.terminal import printed_on_terminal

COMMAND = [
    *("plan", "http://a.example/[1-100]", "-o", "/no/such/directory", "--rate", "10/s"),
    *("--allow-net", "10.0.0.0/8", "--allow-net", "fd00::/8", "--allow-port", "443"),
]
REPORT = """\
plan: nothing was sent
  input    http://a.example/[1-100]
  rows     100
  results  /no/such/directory: a new job
  host     a.example
  network  any address but link-local and metadata ones; --allow-net 10.0.0.0/8; --allow-net fd00::/8; --allow-port 443
at most 10/s by --rate: 100 rows take 10 s, unless responses take more than 10 s
"""


def report(text: str) -> str:
    """Returns the report of the command without what depends on the machine, and without the requests."""
    report = re.sub(r"^  disk .*\n(?:    .*\n)*", "", text.partition("\n\n")[0] + "\n", flags=re.MULTILINE)
    return re.sub(r"^  machine .*\n(?: .*\n)*", "", report, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("expected", "columns"),
    [
        (REPORT, 200),
        (REPORT, 0),
        (
            """\
plan: nothing was sent
  input    http://a.example/[1-100]
  rows     100
  results  /no/such/directory: a new job
  host     a.example
  network  any address but link-local and metadata ones;
           --allow-net 10.0.0.0/8; --allow-net fd00::/8;
           --allow-port 443
at most 10/s by --rate: 100 rows take 10 s, unless responses
take more than 10 s
""",
            60,
        ),
        (
            """\
plan: nothing was sent
  input
    http://a.example/[1-100]
  rows     100
  results  /no/such/directory:
    a new job
  host     a.example
  network  any address but
    link-local and metadata
    ones; --allow-net
    10.0.0.0/8; --allow-net
    fd00::/8; --allow-port 443
at most 10/s by --rate: 100
rows take 10 s, unless
responses take more than 10 s
""",
            30,
        ),
    ],
)
def test_a_report_is_broken_between_words_below_its_figures_where_the_width_is_known(
    expected: str, columns: int
) -> None:
    assert expected == report(printed_on_terminal(*COMMAND, columns=columns))


def test_a_report_that_goes_to_a_file_is_left_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stream, redirect_stdout(stream):
        assert 0 == cli.run(COMMAND)
    assert REPORT == report(log.read_text())
