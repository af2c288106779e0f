"""A terminal that breaks lines when it becomes narrower and joins them when it becomes wider, as most terminals do."""

import io
import re

from rich.console import Console

_TOKEN = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Screen(io.StringIO):
    """Keeps what a terminal would show of the text that is written to it, without colours.

    Attributes:
        console: A console that writes to it.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.console = Console(file=self, force_terminal=True, width=columns, height=50, _environ={"TERM": "xterm"})
        self._columns = columns
        self._rows: list[str] = [""]
        self._is_broken = [False]  # whether the row continues in the next one
        self._row = self._column = 0

    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        """Returns the rows that are not empty."""
        return [row.rstrip() for row in self._rows if row.strip()]

    def resize(self, columns: int) -> None:
        """Changes the width; the cursor must be at the end of what is shown, and stays there."""
        assert self._row == len(self._rows) - 1
        lines, begins = list[str](), True
        for row, is_broken in zip(self._rows, self._is_broken, strict=True):
            lines[-1:] = [row] if begins and not lines else [lines[-1], row] if begins else [lines[-1] + row]
            begins = not is_broken
        self._rows, self._is_broken = [], []
        for line in lines:
            pieces = [line[at : at + columns] for at in range(0, len(line), columns)] or [""]
            self._rows += pieces
            self._is_broken += [True] * (len(pieces) - 1) + [False]
        self._row, self._columns, self.console.width = len(self._rows) - 1, columns, columns

    def write(self, text: str) -> int:
        for parameter, command, start, below, printed in _TOKEN.findall(text):
            if start:
                self._column = 0
            elif below:
                self._row, self._column = self._row + 1, 0
                if self._row == len(self._rows):
                    self._rows.append("")
                    self._is_broken.append(False)
            elif printed:
                row = self._rows[self._row].ljust(self._column)
                self._rows[self._row] = row[: self._column] + printed + row[self._column + len(printed) :]
                self._column += len(printed)
                assert self._column < self._columns, "the last column is never written to"
            else:
                self._steer(parameter, command)
        return len(text)

    def _steer(self, parameter: str, command: str) -> None:
        if command == "A":
            assert self._row >= int(parameter), "it goes beyond what was drawn"
            self._row -= int(parameter)
        elif command == "B":
            self._row += int(parameter)
        elif command == "K":
            begin = 0 if parameter == "2" else self._column
            self._rows[self._row] = self._rows[self._row][:begin]
            self._is_broken[self._row] = self._is_broken[self._row] and begin > 0
        elif command == "J":
            self._rows[self._row :] = [self._rows[self._row][: self._column]]
            self._is_broken[self._row :] = [False]
        else:
            assert command in "mhl", f"unknown command: {command}"
