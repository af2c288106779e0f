import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from headgate.cli._wrapping import fitted

REPORT = """\
2,328 of 100,000 rows done (2 %); stopped: the same command goes on
  failed     44
    connect  25  row 0: http://127.0.0.1:1/1: 127.0.0.1:1: Connection refused (os error 111)
  results    2 files"""


@contextmanager
def terminal(columns: int) -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        with os.fdopen(theirs, "w") as stream:
            yield stream
    finally:
        os.close(ours)


@pytest.mark.parametrize(
    ("expected", "columns"),
    [
        (REPORT, 100),
        (REPORT, 0),
        (
            """\
2,328 of 100,000 rows done (2 %); stopped: the same command
goes on
  failed     44
    connect  25  row 0: http://127.0.0.1:1/1: 127.0.0.1:1:
             Connection refused (os error 111)
  results    2 files""",
            60,
        ),
        (
            """\
2,328 of 100,000 rows done (2
%); stopped: the same command
goes on
  failed     44
    connect  25  row 0:
      http://127.0.0.1:1/1:
      127.0.0.1:1: Connection
      refused (os error 111)
  results    2 files""",
            30,
        ),
    ],
)
def test_a_report_is_broken_between_words_below_its_figures_where_the_width_is_known(
    expected: str, columns: int
) -> None:
    with terminal(columns) as stream:
        assert expected == fitted(REPORT, stream)


def test_a_report_that_goes_to_a_file_is_left_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        assert REPORT == fitted(REPORT, stream)
