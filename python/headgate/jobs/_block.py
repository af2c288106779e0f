"""A block of lines at the bottom of a terminal that is drawn again and again, also while the terminal is resized."""

from typing import TYPE_CHECKING, Final

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
