"""The display of a running job: a live block on a terminal, a line in a notebook, log lines elsewhere, or nothing.

The thread that waits for the job draws it a few times a second, from one snapshot of constant size.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self

from headgate import _format
from headgate._summary import SlowestHost, Snapshot
from headgate.jobs._events import WRITERS, Event, as_words
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
    """A block of lines at the bottom of the screen.

    A terminal that becomes narrower wraps lines that are too long, which moves the cursor down. So the first row of the
    block is computed from the widths of the drawn lines and the current width of the terminal.
    """

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._content: RenderableType | None = None
        self._widths: list[int] = []
        self._columns = console.width

    @property
    def width(self) -> int:
        """Columns of a line. The terminal's last one stays free: clearing after a full line would clear its end."""
        return self._console.width - 1

    def begin(self) -> None:
        """Hides the cursor while the block is shown."""
        self._console.show_cursor(show=False)

    def end(self) -> None:
        """Removes the block."""
        self._write(self._erase_codes())
        self._widths = []
        self._console.show_cursor(show=True)

    def draw(self, content: "RenderableType") -> None:
        """Draws the block with this content, over the previous one."""
        # Terminals remember which lines they have wrapped, and join them again later unless they were cleared.
        before = _up(self._rows()) if self._columns == self._console.width else self._erase_codes()
        self._columns = self._console.width
        self._content = content
        self._write(f"{before}{self._render(content)}{_CLEAR_BELOW}")

    def write_above(self, message: str) -> None:
        """Writes a permanent message above the block."""
        self._write(self._erase_codes())
        self._widths = []
        self._console.print(message, markup=False, highlight=False)
        if self._content is not None:
            self.draw(self._content)

    def _render(self, content: "RenderableType") -> str:
        from rich.segment import Segment, Segments  # noqa: PLC0415 - takes longer than `headgate --help` may

        options = self._console.options.update(width=self.width)
        # Rows below the screen could not be drawn over.
        rendered = self._console.render_lines(content, options, pad=False)[: self._console.height - 1]
        lines = [_without_trailing_spaces(line) for line in rendered]
        self._widths = [Segment.get_line_length(line) for line in lines]
        with self._console.capture() as capture:
            for line in lines:
                self._console.print(Segments([*line, Segment.line()]), end="")
        return capture.get().removesuffix("\n").replace("\n", f"{_CLEAR_TO_ROW_END}\n")

    def _rows(self) -> int:
        """Returns how many rows of the screen the block occupies now."""
        columns = max(self._console.width, 1)
        return sum(max(1, -(-width // columns)) for width in self._widths)

    def _erase_codes(self) -> str:
        """Returns codes that clear the block row by row: clearing the screen would move it into the scrollback."""
        rows = self._rows()
        return _up(rows) + _ROW_BELOW.join([_CLEAR_ROW] * rows) + _up(rows)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _up(rows: int) -> str:
    """Returns codes that move the cursor from the last to the first of so many rows."""
    return _TO_ROW_START + (f"\x1b[{rows - 1}A" if rows > 1 else "")


def _without_trailing_spaces(line: "list[Segment]") -> "list[Segment]":
    """Returns the line without trailing spaces, because terminals differ in whether they wrap those."""
    while line and not line[-1].text.strip(" "):
        line = line[:-1]
    return line and [*line[:-1], line[-1]._replace(text=line[-1].text.rstrip(" "))]


LINE_EVERY_S: Final = 10.0
_MAX_WIDTH: Final = 80
_NARROW: Final = 69
"""Below this width the facts do not fit side by side: the block shows only what matters most."""

_MAX_BAR: Final = 24
_MIN_BAR: Final = 8
_GAP: Final = 2


class Display:
    """Shows a running job: this one nothing, its subclasses on their kinds of screen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        """Shows the progress of the job."""

    def say(self, event: Event) -> None:
        """Shows an event once."""

    def end(self, snapshot: Snapshot) -> None:
        """Shows the final progress, if the display is permanent."""


class Lines(Display):
    """Writes events, and the progress at an interval, for logs and pipes."""

    def __init__(
        self,
        stream: IO[str],
        *,
        interval_s: float = LINE_EVERY_S,
        write: Callable[[Event], str | None] = as_words,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._interval_s = interval_s
        self._write = write
        self._clock = clock
        self._written_at = clock()

    def update(self, snapshot: Snapshot) -> None:
        """Writes a record if the interval has passed."""
        if self._clock() - self._written_at >= self._interval_s:
            self._written_at = self._clock()
            self.say(Event(name="progress", message=progress_line(snapshot), fields=asdict(snapshot)))

    def say(self, event: Event) -> None:
        """Writes the event."""
        text = self._write(event)
        if text is not None:
            print(text, file=self._stream, flush=True)


class WithLog(Display):
    """A display, beside which a file gets all records. If the file can't be written, the display continues."""

    def __init__(self, display: Display, file: IO[str], lines: Lines) -> None:
        self._display = display
        self._file = file
        self._lines = lines

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._display.__exit__(kind, error, trace)

    def update(self, snapshot: Snapshot) -> None:
        """Shows the progress, and records it."""
        with contextlib.suppress(OSError):
            self._lines.update(snapshot)
        self._display.update(snapshot)

    def say(self, event: Event) -> None:
        """Shows the event, and records it."""
        with contextlib.suppress(OSError):
            self._lines.say(event)
        self._display.say(event)

    def end(self, snapshot: Snapshot) -> None:
        """Shows the final progress."""
        self._display.end(snapshot)


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
        # A closed terminal does not affect the results.
        with contextlib.suppress(OSError):
            self._block.end()

    def update(self, snapshot: Snapshot) -> None:
        """Draws the block."""
        width = self._block.width
        self._block.draw(narrow_block(snapshot) if width < _NARROW else progress_block(snapshot, width))

    def say(self, event: Event) -> None:
        """Writes the message above the block."""
        if event.is_shown:
            self._block.write_above(event.message)


class Cell(Display):
    """Keeps one permanent line up to date below the cell of a notebook."""

    def __init__(self) -> None:
        self._line = Line()

    def update(self, snapshot: Snapshot) -> None:
        """Shows the line."""
        self._line.show(short_line(snapshot))

    def say(self, event: Event) -> None:
        """Writes the message to standard error, which the notebook shows."""
        if event.is_shown:
            sys.stderr.write(f"{event.message}\n")

    def end(self, snapshot: Snapshot) -> None:
        """Shows the final progress."""
        self.update(replace(snapshot, time_left_s=None))


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """How events are recorded.

    Attributes:
        format: A key of `WRITERS`; `None`: text in a file, and on standard error no records but messages.
        file: The file that gets the records beside the display; `None`: they replace it.
        interval_s: The time between two records of the progress.
    """

    format: str | None = None
    file: str | None = None
    interval_s: float = LINE_EVERY_S

    def lines(self, stream: IO[str]) -> Lines:
        """Returns the display that writes records to a stream."""
        return Lines(stream, interval_s=self.interval_s, write=WRITERS[self.format or "text"])


def logged_display(log: Log, *, show: bool | None = None, output: str | None = None) -> Display:
    """Returns the display for standard error, and for the file of the log, if there is one.

    Raises:
        OSError: The file can't be opened.
    """
    if log.file is not None:
        # Names of files may have bytes that are no UTF-8.
        file = Path(log.file).open("a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - the display closes it
        return WithLog(display_for(show=show, output=output, interval_s=log.interval_s), file, log.lines(file))
    if log.format is not None and show is not False and sys.stderr is not None:
        return log.lines(sys.stderr)
    return display_for(show=show, output=output, interval_s=log.interval_s)


def display_for(
    stream: IO[str] | None = None,
    *,
    show: bool | None = None,
    output: str | None = None,
    interval_s: float = LINE_EVERY_S,
) -> Display:
    """Returns the display for a stream (standard error by default).

    Args:
        stream: The stream.
        show: `True` shows it in any case, `False` never, `None` on a terminal and in a notebook.
        output: The output of the job: if that is standard output, there is no live block.
        interval_s: The time between two lines where there is no live block.
    """
    if stream is None and show is not False and in_notebook():
        return Cell()
    stream = sys.stderr if stream is None else stream
    # A process without a console has no standard error.
    if stream is None or show is False or (show is None and not stream.isatty()):
        return Display()
    # A live block would erase rows, or the output of the program that reads them, on the same screen.
    if not stream.isatty() or output == STANDARD_STREAM:
        return Lines(stream, interval_s=interval_s)
    from rich.console import Console  # noqa: PLC0415 - takes longer than `headgate --help` may

    console = Console(file=stream)
    return Lines(stream, interval_s=interval_s) if console.is_dumb_terminal else Live(Block(console))


def short_line(snapshot: Snapshot) -> str:
    """Returns the main facts on a line that fits into 100 columns."""
    facts = [
        _rows(snapshot),
        f"{_format.count(snapshot.requests_per_s)} requests/s",
        f"{_format.count(snapshot.failed)} failed",
        _format.duration(snapshot.elapsed_s),
        *_ending(snapshot),
    ]
    return ", ".join(facts)


def progress_line(snapshot: Snapshot) -> str:
    """Returns all facts on one line."""
    facts = [
        _rows(snapshot),
        f"{_format.count(snapshot.requests_per_s)} requests/s now",
        f"{_format.count(snapshot.requests_per_s_mean)} mean",
        f"{_format.count(snapshot.in_flight)} in flight",
        f"{_format.count(snapshot.succeeded)} succeeded",
        f"{_format.count(snapshot.failed)} failed",
        f"p50 {_format.latency(snapshot.p50_us)}",
        f"p99 {_format.latency(snapshot.p99_us)}",
        _format.size(snapshot.received_bytes),
    ]
    facts.extend(_ending(snapshot))
    if snapshot.slowest_host is not None:
        facts.append(_slowest(snapshot.slowest_host))
    elapsed = _format.duration(snapshot.elapsed_s)
    return f"{elapsed}: {', '.join(facts)}; {_format.printable(snapshot.bottleneck.text)}"


def _rows(snapshot: Snapshot) -> str:
    done = snapshot.rows_before + snapshot.rows
    if snapshot.rows_known is not None:
        rows = _format.part(done, snapshot.rows_known, "row")
    else:
        rows = f"{_format.plural(done, 'row')} so far"
    fraction = snapshot.fraction
    return rows if fraction is None else f"{rows} ({_format.share(fraction)})"


def _ending(snapshot: Snapshot) -> list[str]:
    if snapshot.stopping:
        return ["stopping"]
    return [] if snapshot.time_left_s is None else [f"{_format.duration(snapshot.time_left_s)} left"]


def _slowest(host: SlowestHost) -> str:
    return f"slowest host: {_format.printable(str(host))}"


def progress_block(snapshot: Snapshot, width: int = _MAX_WIDTH) -> "RenderableType":
    """Returns the live block: five lines, and the sentence on the bottleneck; it fits into 80 columns."""
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
    facts.add_row("succeeded", _format.count(snapshot.succeeded), "failed", failed)
    facts.add_row("latency", latencies, "received", _format.size(snapshot.received_bytes))
    bound = Text(_format.printable(snapshot.bottleneck.text), style="bold")
    slowest = [] if snapshot.slowest_host is None else [Text(_slowest(snapshot.slowest_host))]
    return Group(_progress(snapshot, min(width, _MAX_WIDTH)), facts, *slowest, bound)


def narrow_block(snapshot: Snapshot) -> "RenderableType":
    """Returns the live block for a narrow terminal: the main facts, wrapped."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415

    return Group(
        Text(_rows(snapshot)),
        Text(", ".join([_format.duration(snapshot.elapsed_s), *_ending(snapshot)])),
        Text(f"{_format.count(snapshot.requests_per_s)} requests/s, {_format.count(snapshot.in_flight)} in flight"),
        Text(f"latency p50 {_format.latency(snapshot.p50_us)}, p99 {_format.latency(snapshot.p99_us)}"),
        Text(f"{_format.count(snapshot.failed)} failed", style="bold red" if snapshot.failed else ""),
        *([] if snapshot.slowest_host is None else [Text(_slowest(snapshot.slowest_host))]),
        Text(_format.printable(snapshot.bottleneck.text), style="bold"),
    )


def _progress(snapshot: Snapshot, width: int) -> "RenderableType":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415

    before, after = _rows(snapshot), [_format.duration(snapshot.elapsed_s), *_ending(snapshot)]
    free = width - sum(len(text) + _GAP for text in (before, *after))
    cells: list[RenderableType] = [before, *after]
    fraction = snapshot.fraction
    if fraction is not None and free >= _MIN_BAR:
        bar = ProgressBar(total=1.0, completed=fraction, width=min(free, _MAX_BAR))
        cells.insert(1, bar)
    line = Table.grid(padding=(0, _GAP))
    for _ in cells:
        line.add_column(no_wrap=True)
    line.add_row(*cells)
    return line
