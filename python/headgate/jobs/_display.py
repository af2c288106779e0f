"""What a running job shows: a live block on a terminal, a line in a notebook, one now and then elsewhere, or nothing.

It is drawn from the thread that waits for the job, some times a second, from one snapshot of constant size.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self

from headgate import _format
from headgate._summary import SlowestHost, Snapshot
from headgate.jobs._notebook import Line, in_notebook
from headgate.jobs._option_entry import STANDARD_STREAM

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.segment import Segment

_TO_ROW_START: Final = "\r"
_ROW_BELOW: Final = "\x1b[1B"
_CLEAR_ROW: Final = "\x1b[2K"
_CLEAR_TO_ROW_END: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


class Block:
    """A block of lines, the last thing on the screen.

    A terminal that becomes narrower breaks each line that is too long now into several, and the cursor goes down with
    them: how far up the block begins is computed from what was drawn and from the width that there is now.
    """

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._content: RenderableType | None = None
        self._widths: list[int] = []
        self._columns = console.width

    @property
    def width(self) -> int:
        """Columns of a line. The last one of the terminal is left free: what clears behind a full line clears in it."""
        return self._console.width - 1

    def begin(self) -> None:
        """The cursor does not show while the block is there."""
        self._console.show_cursor(show=False)

    def end(self) -> None:
        """Removes the block."""
        self._write(self._erasure())
        self._widths = []
        self._console.show_cursor(show=True)

    def draw(self, content: "RenderableType") -> None:
        """Draws it with this content, over what it was."""
        # Terminals remember which lines they have broken, and join them again later unless they were cleared meanwhile.
        before = _up(self._rows()) if self._columns == self._console.width else self._erasure()
        self._columns = self._console.width
        self._content = content
        self._write(f"{before}{self._drawn(content)}{_CLEAR_BELOW}")

    def write_above(self, message: str) -> None:
        """Writes a message that stays."""
        self._write(self._erasure())
        self._widths = []
        self._console.print(message, markup=False, highlight=False)
        if self._content is not None:
            self.draw(self._content)

    def _drawn(self, content: "RenderableType") -> str:
        from rich.segment import Segment, Segments  # noqa: PLC0415 - takes longer than `headgate --help` may

        options = self._console.options.update(width=self.width)
        # What is below the screen could not be drawn over.
        rendered = self._console.render_lines(content, options, pad=False)[: self._console.height - 1]
        lines = [_without_spaces_at_the_end(line) for line in rendered]
        self._widths = [Segment.get_line_length(line) for line in lines]
        with self._console.capture() as capture:
            for line in lines:
                self._console.print(Segments([*line, Segment.line()]), end="")
        return capture.get().removesuffix("\n").replace("\n", f"{_CLEAR_TO_ROW_END}\n")

    def _rows(self) -> int:
        """Rows of the screen that it takes now."""
        columns = max(self._console.width, 1)
        return sum(max(1, -(-width // columns)) for width in self._widths)

    def _erasure(self) -> str:
        """Clears it row by row: what clears the whole screen at once moves it to what can be scrolled back to."""
        rows = self._rows()
        return _up(rows) + _ROW_BELOW.join([_CLEAR_ROW] * rows) + _up(rows)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _up(rows: int) -> str:
    """From the last to the first of so many rows."""
    return _TO_ROW_START + (f"\x1b[{rows - 1}A" if rows > 1 else "")


def _without_spaces_at_the_end(line: "list[Segment]") -> "list[Segment]":
    """The line with what can be seen of it: terminals do not agree on whether spaces at the end are broken off, too."""
    while line and not line[-1].text.strip(" "):
        line = line[:-1]
    return line and [*line[:-1], line[-1]._replace(text=line[-1].text.rstrip(" "))]


LINE_EVERY_S: Final = 10.0
_WIDEST: Final = 80
_NARROW: Final = 69
"""Below this width the facts do not fit side by side: the block shows only what matters most."""

_LONGEST_BAR: Final = 24
_SHORTEST_BAR: Final = 8
_GAP: Final = 2


class Display:
    """Shows a running job: this one nothing, its subclasses on their kinds of screen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        """Shows how far the job is."""

    def say(self, message: str) -> None:
        """Shows a message once."""

    def end(self, snapshot: Snapshot) -> None:
        """Shows how far the job came, if that is to stay."""


class Lines(Display):
    """Writes a line every ten seconds: for logs and pipes."""

    def __init__(self, stream: IO[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._written_at = clock()

    def update(self, snapshot: Snapshot) -> None:
        """Writes the line if it is time."""
        if self._clock() - self._written_at >= LINE_EVERY_S:
            self._written_at = self._clock()
            self.say(progress_line(snapshot))

    def say(self, message: str) -> None:
        """Writes the message on a line of its own."""
        print(message, file=self._stream, flush=True)


class Live(Display):
    """Keeps one block of lines up to date on a terminal, and removes it at the end."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def __enter__(self) -> Self:
        self._block.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The terminal may be gone, the results are not.
        with contextlib.suppress(OSError):
            self._block.end()

    def update(self, snapshot: Snapshot) -> None:
        """Draws the block."""
        width = self._block.width
        self._block.draw(narrow_block(snapshot) if width < _NARROW else progress_block(snapshot, width))

    def say(self, message: str) -> None:
        """Writes the message above the block."""
        self._block.write_above(message)


class Cell(Display):
    """Keeps one line up to date below the cell of a notebook, where it stays."""

    def __init__(self) -> None:
        self._line = Line()

    def update(self, snapshot: Snapshot) -> None:
        """Shows the line."""
        self._line.show(short_line(snapshot))

    def say(self, message: str) -> None:
        """Writes the message as what a program prints."""
        sys.stderr.write(f"{message}\n")

    def end(self, snapshot: Snapshot) -> None:
        """Shows where it came to."""
        self.update(replace(snapshot, time_left_s=None))


def display_for(stream: IO[str] | None = None, *, show: bool | None = None, output: str | None = None) -> Display:
    """The display that suits the stream (standard error if none is given).

    Args:
        stream: Where to show it.
        show: `True` shows it in any case, `False` never, `None` on a terminal and in a notebook.
        output: Where the job's rows go: if to standard output, there is no live block.
    """
    if stream is None and show is not False and in_notebook():
        return Cell()
    stream = sys.stderr if stream is None else stream
    # A process without a console has none.
    if stream is None or show is False or (show is None and not stream.isatty()):
        return Display()
    # The rows, or what the program that reads them prints, may be on the same screen: a live block would erase them.
    if not stream.isatty() or output == STANDARD_STREAM:
        return Lines(stream)
    from rich.console import Console  # noqa: PLC0415 - takes longer than `headgate --help` may

    console = Console(file=stream)
    return Lines(stream) if console.is_dumb_terminal else Live(Block(console))


def short_line(snapshot: Snapshot) -> str:
    """What matters most, on a line that is never broken where there are 100 columns."""
    facts = [
        _rows(snapshot),
        f"{_format.count(snapshot.requests_per_s)} requests/s",
        f"{_format.count(snapshot.failed)} failed",
        _format.duration(snapshot.elapsed_s),
        *_ending(snapshot),
    ]
    return ", ".join(facts)


def progress_line(snapshot: Snapshot) -> str:
    """All facts on one line."""
    facts = [
        _rows(snapshot),
        f"{_format.count(snapshot.requests_per_s)} requests/s now",
        f"{_format.count(snapshot.requests_per_s_mean)} mean",
        f"{_format.count(snapshot.in_flight)} in flight",
        f"{_format.count(snapshot.answered)} answered",
        f"{_format.count(snapshot.failed)} failed",
        f"p50 {_format.latency(snapshot.p50_us)}",
        f"p99 {_format.latency(snapshot.p99_us)}",
        _format.size(snapshot.bytes_received),
    ]
    facts.extend(_ending(snapshot))
    if snapshot.slowest_host is not None:
        facts.append(_slowest(snapshot.slowest_host))
    elapsed = _format.duration(snapshot.elapsed_s)
    return f"{elapsed}: {', '.join(facts)}; {_format.printable(snapshot.bound_by.text)}"


def _rows(snapshot: Snapshot) -> str:
    done = snapshot.rows_before + snapshot.rows
    if snapshot.rows_known is not None:
        rows = _format.part(done, snapshot.rows_known, "row")
    else:
        rows = f"{_format.plural(done, 'row')} so far"
    return rows if snapshot.fraction is None else f"{rows} ({_format.share(snapshot.fraction)})"


def _ending(snapshot: Snapshot) -> list[str]:
    if snapshot.stopping:
        return ["stopping"]
    return [] if snapshot.time_left_s is None else [f"{_format.duration(snapshot.time_left_s)} left"]


def _slowest(host: SlowestHost) -> str:
    return f"slowest host: {_format.printable(str(host))}"


def progress_block(snapshot: Snapshot, width: int = _WIDEST) -> "RenderableType":
    """The live block: five lines, and the sentence on the bottleneck; fits into 80 columns."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    facts = Table.grid(padding=(0, _GAP))
    for column in range(4):
        facts.add_column(style="" if column % 2 else "dim", no_wrap=True, min_width=(10, 26, 9, 0)[column])
    now, mean = _format.count(snapshot.requests_per_s), _format.count(snapshot.requests_per_s_mean)
    failed = Text(_format.count(snapshot.failed), style="bold red" if snapshot.failed else "")
    latencies = f"p50 {_format.latency(snapshot.p50_us)}, p99 {_format.latency(snapshot.p99_us)}"
    in_flight, most = _format.count(snapshot.in_flight), _format.count(snapshot.concurrency)
    facts.add_row("requests/s", f"{now} now, {mean} mean", "in flight", f"{in_flight} of {most}")
    facts.add_row("answered", _format.count(snapshot.answered), "failed", failed)
    facts.add_row("latency", latencies, "received", _format.size(snapshot.bytes_received))
    bound = Text(_format.printable(snapshot.bound_by.text), style="bold")
    slowest = [] if snapshot.slowest_host is None else [Text(_slowest(snapshot.slowest_host))]
    return Group(_progress(snapshot, min(width, _WIDEST)), facts, *slowest, bound)


def narrow_block(snapshot: Snapshot) -> "RenderableType":
    """The live block on a narrow terminal: what matters most, wrapped."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415

    return Group(
        Text(_rows(snapshot)),
        Text(", ".join([_format.duration(snapshot.elapsed_s), *_ending(snapshot)])),
        Text(f"{_format.count(snapshot.requests_per_s)} requests/s, {_format.count(snapshot.in_flight)} in flight"),
        Text(f"latency p50 {_format.latency(snapshot.p50_us)}, p99 {_format.latency(snapshot.p99_us)}"),
        Text(f"{_format.count(snapshot.failed)} failed", style="bold red" if snapshot.failed else ""),
        *([] if snapshot.slowest_host is None else [Text(_slowest(snapshot.slowest_host))]),
        Text(_format.printable(snapshot.bound_by.text), style="bold"),
    )


def _progress(snapshot: Snapshot, width: int) -> "RenderableType":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415

    before, after = _rows(snapshot), [_format.duration(snapshot.elapsed_s), *_ending(snapshot)]
    free = width - sum(len(text) + _GAP for text in (before, *after))
    cells: list[RenderableType] = [before, *after]
    if snapshot.fraction is not None and free >= _SHORTEST_BAR:
        bar = ProgressBar(total=1.0, completed=snapshot.fraction, width=min(free, _LONGEST_BAR))
        cells.insert(1, bar)
    line = Table.grid(padding=(0, _GAP))
    for _ in cells:
        line.add_column(no_wrap=True)
    line.add_row(*cells)
    return line
