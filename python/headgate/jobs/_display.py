"""What a running job shows: a live block on a terminal, a line now and then elsewhere, or nothing.

It is drawn from the thread that waits for the job, some times a second, from one snapshot of constant size.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self

from headgate import _format
from headgate._summary import Snapshot
from headgate.jobs._option_entry import STANDARD_STREAM

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINE_EVERY_S: Final = 10.0
_BLOCK_WIDTH: Final = 80
_NARROW: Final = 70
"""Below this width the facts do not fit side by side: the block shows only what matters most."""

_LONGEST_BAR: Final = 24
_SHORTEST_BAR: Final = 8
_GAP: Final = 2


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        """Nothing is shown."""

    def say(self, message: str) -> None:
        """Nothing is said."""

    def end(self, snapshot: Snapshot) -> None:
        """Nothing stays."""


class Lines(Silent):
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


class Live(Silent):
    """Keeps one block of lines up to date on a terminal, and removes it at the end."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live as Block  # noqa: PLC0415 - takes longer than `headgate --help` may

        self._console = console
        # Standard output may be carrying the results: nothing of it is redirected.
        self._block = Block(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Self:
        self._block.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The terminal may be gone, the results are not.
        with contextlib.suppress(OSError):
            self._block.stop()

    def update(self, snapshot: Snapshot) -> None:
        """Draws the block."""
        narrow = self._console.width < _NARROW
        self._block.update(narrow_block(snapshot) if narrow else progress_block(snapshot), refresh=True)

    def say(self, message: str) -> None:
        """Writes the message above the block."""
        self._console.print(message, markup=False, highlight=False)


def display_for(stream: IO[str] | None = None, *, show: bool | None = None, output: str | None = None) -> Silent:
    """The display that suits the stream (standard error if none is given).

    Args:
        stream: Where to show it.
        show: `True` shows it in any case, `False` never, `None` on a terminal only.
        output: Where the job's rows go: if to standard output, there is no live block.
    """
    stream = sys.stderr if stream is None else stream
    if show is False or (show is None and not stream.isatty()):
        return Silent()
    # The rows, or what the program that reads them prints, may be on the same screen: a live block would erase them.
    if not stream.isatty() or output == STANDARD_STREAM:
        return Lines(stream)
    from rich.console import Console  # noqa: PLC0415 - takes longer than `headgate --help` may

    console = Console(file=stream)
    return Lines(stream) if console.is_dumb_terminal else Live(console)


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


def progress_block(snapshot: Snapshot) -> "RenderableType":
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
    in_flight, places = _format.count(snapshot.in_flight), _format.count(snapshot.concurrency)
    facts.add_row("requests/s", f"{now} now, {mean} mean", "in flight", f"{in_flight} of {places}")
    facts.add_row("answered", _format.count(snapshot.answered), "failed", failed)
    facts.add_row("latency", latencies, "received", _format.size(snapshot.bytes_received))
    bound = Text(_format.printable(snapshot.bound_by.text), style="bold")
    return Group(_progress(snapshot), facts, bound)


def narrow_block(snapshot: Snapshot) -> "RenderableType":
    """The live block where there is little room: what matters most, wrapped."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415

    return Group(
        Text(_rows(snapshot)),
        Text(f"{_format.count(snapshot.requests_per_s)} requests/s, {_format.count(snapshot.in_flight)} in flight"),
        Text(f"{_format.count(snapshot.failed)} failed", style="bold red" if snapshot.failed else ""),
        Text(_format.printable(snapshot.bound_by.text), style="bold"),
    )


def _progress(snapshot: Snapshot) -> "RenderableType":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415

    before, after = _rows(snapshot), [_format.duration(snapshot.elapsed_s), *_ending(snapshot)]
    room = _BLOCK_WIDTH - sum(len(text) + _GAP for text in (before, *after))
    cells: list[RenderableType] = [before, *after]
    if snapshot.fraction is not None and room >= _SHORTEST_BAR:
        width = min(room, _LONGEST_BAR)
        cells.insert(1, ProgressBar(total=1.0, completed=snapshot.fraction, width=width))
    line = Table.grid(padding=(0, _GAP))
    for _ in cells:
        line.add_column(no_wrap=True)
    line.add_row(*cells)
    return line
