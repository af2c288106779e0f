"""The first step of reading a command line: the flags of a verb, their help, and the words typed for each.

`argparse` would stop at the first mistake, and take -4 for a flag where a value is expected. The second step is
`Values`, which collects all mistakes.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from headgate._nearest import nearest
from headgate.cli._config import CONFIG, Config
from headgate.cli._flag import Choices, Flag
from headgate.cli._values import Values
from headgate.cli._wrapping import help_width, listed, wrapped

_FILES: Final = ("FILE", "INPUT", "OUT")
_HELP: Final = "help"
_COLUMN: Final = 30
"""The column of the help at which descriptions begin."""

_LOOKS_LIKE_A_FLAG: Final = re.compile(r"--?[a-zA-Z]\S*|--")
"""A word that is not the value of the flag before it. -4 and '- a text' can be values."""


class Parser:
    """Flags and arguments of one verb."""

    def __init__(  # noqa: PLR0913 - texts, by name
        self,
        verb: str,
        *,
        usage: str,
        description: str,
        examples: str,
        elsewhere: Callable[[str], str | None] = lambda _: None,
        short_help: "Callable[[Parser], str] | None" = None,
    ) -> None:
        """Creates a parser without flags.

        Args:
            verb: The verb.
            usage: The words after the verb.
            description: What the verb does.
            examples: The last paragraphs of the help.
            elsewhere: Returns advice on a flag of another program.
            short_help: Returns what `-h` prints, if it is less than `--help` prints.
        """
        self.usage: str = f"usage: headgate {verb} {usage}"
        self._verb = verb
        self._see = f"headgate {verb} --help"
        self._description = description
        self._examples = examples
        self._elsewhere = elsewhere
        self._short_help = short_help
        self._group = ""
        self._argument = ""
        self._names: dict[str, str] = {}
        self._flags: list[Flag] = []
        self._rows: list[tuple[str, str]] = []
        self._sections: list[tuple[str, list[tuple[str, str]], int]] = []
        self.argument_choices: Choices = None
        self.argument_metavar: str = ""
        self.argument_repeats: bool = False

    def group(self, title: str, *, about: str = "", is_shown: bool = True) -> None:
        """Starts a group of flags, which the help shows or omits."""
        self._group, self._rows = title, []
        if is_shown:
            self._sections.append((f"{title}: {about}" if about else f"{title}:", self._rows, _COLUMN))

    def section(self, title: str, rows: Iterable[tuple[str, str]]) -> None:
        """Adds a list to the help."""
        self._sections.append((title, list(rows), 0))

    def argument(self, dest: str, metavar: str, text: str, *, choices: Choices = None, repeats: bool = False) -> None:
        """Adds the only positional argument, which can have several values."""
        self.argument_repeats = repeats
        self.argument_choices = _choices(metavar, choices)
        self.argument_metavar = metavar
        self._argument = dest
        self._names[dest] = metavar
        self._rows.append((metavar, text))

    def value(  # noqa: PLR0913 - properties, by name
        self,
        dest: str,
        *names: str,
        metavar: str,
        text: str,
        default: str = "",
        details: str = "",
        repeats: bool = False,
        choices: Choices = None,
        has_signs: bool = False,
    ) -> None:
        """Adds a flag with a value."""
        self._add(
            Flag(
                dest=dest,
                names=names,
                text=text,
                default=default,
                details=details,
                metavar=metavar,
                repeats=repeats,
                choices=_choices(metavar, choices),
                has_signs=has_signs,
                group=self._group,
            )
        )

    def switch(
        self, dest: str, *names: str, text: str, details: str = "", values: tuple[object, object] = (True, False)
    ) -> None:
        """Adds a flag without a value, and its opposite; `values` are what the two set, and the last one wins."""
        self._add(Flag(dest=dest, names=names, text=text, details=details, value=values[0], group=self._group))
        name = names[-1]
        opposite = f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else f"--no-{name[2:]}"
        undone = f"undo {name}"
        self._add(Flag(dest=dest, names=(opposite,), text=undone, value=values[1], group=self._group, is_shown=False))

    def _add(self, flag: Flag) -> None:
        self._flags.append(flag)
        self._names.setdefault(flag.dest, flag.names[-1])
        if flag.is_shown:
            self._rows.append(flag.row())

    def name_of(self, dest: str) -> str:
        """Returns the name for messages: the long flag, or the word in the usage line."""
        return self._names[dest]

    def flags(self) -> Sequence[Flag]:
        """Returns all flags, also those that the help omits."""
        return (*self._flags, *self._other_flags())

    def names(self) -> Sequence[str]:
        """Returns the names of all flags."""
        return [name for flag in self.flags() for name in flag.names]

    def _other_flags(self) -> Sequence[Flag]:
        config = Flag(
            dest=CONFIG,
            names=("--config",),
            metavar="FILE",
            text=f"TOML file with options in its table [{self._verb}]; what is typed wins",
            choices="files",
        )
        if self._short_help is None:
            return (config, Flag(dest=_HELP, names=("-h", "--help"), text="print this", value=Parser.help))
        return (
            config,
            Flag(dest=_HELP, names=("-h",), text="print the flags that most people need", value=self._short_help),
            Flag(dest=_HELP, names=("--help",), text="print all flags", value=Parser.help),
        )

    def help(self) -> str:
        """Returns the whole help."""
        width = help_width()
        sections = [*self._sections, ("other:", [flag.row() for flag in self._other_flags()], _COLUMN)]
        lists = [f"{wrapped(title, width)}\n{listed(rows, width, column=at)}" for title, rows, at in sections]
        return "\n\n".join([self.usage, wrapped(self._description, width), *lists, wrapped(self._examples, width)])

    def read(self, arguments: Sequence[str]) -> Values | None:
        """Reads a command line; returns `None` after printing the help."""
        flags = {name: flag for flag in self.flags() for name in flag.names}
        typed: dict[str, Any] = dict.fromkeys([flag.dest for flag in flags.values()])
        values = Values(self._names, typed, see=self._see)
        texts: list[str] = []
        unknown: list[str] = []
        words = deque(arguments)
        while words:
            word, name, text = _next(words, flags)
            if word == "--":
                texts.extend(words)
                words.clear()
            elif name in flags:
                mistake = _read_flag(flags[name], text, words, typed)
                if mistake is not None:
                    values.wrong(flags[name].dest, mistake)
            else:
                (unknown if word.startswith("-") and word != "-" else texts).append(word)
        if typed[_HELP] is not None:
            print(typed[_HELP](self))
            return None
        if self._argument:
            typed[self._argument] = texts
        if typed[CONFIG] is not None:
            self._add_configured(typed, values)
        values.mistakes.extend(self._unknown(unknown, flags))
        if not unknown and not self.argument_repeats:  # otherwise it may be the value of an unknown flag
            values.mistakes.extend(f"unexpected argument {text}" for text in texts[1 if self._argument else 0 :])
        return values

    def _add_configured(self, typed: dict[str, Any], values: Values) -> None:
        """Adds the values of the file that `--config` names, where none were typed."""
        config = Config(typed[CONFIG], self._verb, self._flags, values.mistakes.append)
        for dest, value in config.read(self._argument).items():
            if typed[dest] in (None, []):  # a switch that was typed in its opposite form is False
                values.add(dest, value, config.where(dest))

    def _unknown(self, words: Iterable[str], known: Iterable[str]) -> Iterable[str]:
        for word in words:
            name = word.partition("=")[0]
            elsewhere = self._elsewhere(name)
            hint = None if elsewhere else nearest(name, known)
            advice = elsewhere or (hint and f"did you mean {hint}?")
            yield f"unknown flag {name}" + (f": {advice}" if advice else "")


def _next(words: deque[str], flags: Mapping[str, Flag]) -> tuple[str, str, str | None]:
    """Takes a word; returns it, the name of its flag, and the value that is in it: `--name=value`, `-nvalue`."""
    word = words.popleft()
    name, equals, text = word.partition("=")
    if name in flags or word.startswith("--"):
        return word, name, text if equals else None
    name, text = word[:2], word[2:]
    if text and name in flags and flags[name].metavar is None:
        words.appendleft(f"-{text}")  # -qk is -q -k
        text = ""
    return word, name, text or None


def _read_flag(flag: Flag, text: str | None, words: deque[str], typed: dict[str, Any]) -> str | None:
    """Stores the value of a flag, which is `text` or the next word; returns the mistake, if there is one."""
    if flag.metavar is None:
        typed[flag.dest] = flag.value
        return None if text is None else "takes no value"
    if text is None and words:
        is_value = not words[0].startswith("--") if flag.has_signs else not _LOOKS_LIKE_A_FLAG.fullmatch(words[0])
        text = words.popleft() if is_value else None
    if text is None:
        return "needs a value"
    typed[flag.dest] = [*(typed[flag.dest] or ()), text] if flag.repeats else text
    return None


def _choices(metavar: str, choices: Choices) -> Choices:
    return choices or ("files" if metavar in _FILES else None)
