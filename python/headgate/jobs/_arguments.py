"""What was given from Python, read as what the options hold; what can't be read is a mistake.

A message names types and not values where a value may be a secret: headers and data.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate._checks import LONE_SURROGATE, kind_of, text
from headgate._errors import UsageError
from headgate._message import Mention
from headgate._option import OptionSet
from headgate.jobs import _secret_file
from headgate.jobs._job_options import JobOptions, Mistake, SetOptions
from headgate.jobs._option_entry import ALL_COLUMNS, ANY_HOST, GivenAs, JobOption
from headgate.jobs._options import SET

_WRITE_PORTS = "write 443 or [443, 8443]"
_WRITE_STATUSES = "write '429,5xx' or [429, '5xx']"
_WRITE_KINDS = "write 'timeout,status:503' or ['timeout', 'status:503']"
_WRITE_FAILURES = "write 'connect,429' or ['connect', 429]"
_WRITE_PER_HOST = {
    "concurrency_per_host": "write 8, 'auto' or {'slow.example': 2, '*': 8}",
    "rate_per_host": "write '10/s' or {'api.example.com': '5/s', '*': '10/s'}",
}
_WRITE_HEADERS = "give a mapping, as {'Accept': 'text/html'}, or pairs, as [('Accept', 'text/html')]"

_WRITE_LIST = "write 'a,b' or ['a', 'b']"
_WRITE_SELECTION = "write {'answer': '$.answer', 'tokens:int64': '$.usage.total'} or ['answer=$.answer']"


class Arguments:
    """Reads arguments one by one.

    Attributes:
        mistakes: What could not be read, at most one for each argument.
    """

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def read(self, options: OptionSet[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, each read as its entry says; a name that no option has is a `TypeError`."""
        readers: dict[GivenAs, Callable[[str, Any], object]] = {
            "path": self.path_or_none,
            "data": self.data,
            "json": self.json,
            "selection": self.selection,
            "list": self.listed_names,
            "headers": self.headers,
            "header templates": self.headers,
            "token": self.token,
            "user": self.user,
            "names": self.names,
            "texts": self.texts,
            "ports": self.ports,
            "proxies": self.proxies,
            "columns": self.columns,
            "statuses": self.statuses,
            "kinds": self.kinds,
            "failures": self.failures,
            "per host": self.per_host,
            "share": self.share,
        }
        options.complete(given)
        values = dict(given)
        for name in given:
            option = options.entries[name].option
            reader = readers.get(option.given_as) if isinstance(option, JobOption) else None
            if reader is not None:
                values[name] = reader(name, given[name])
        return values

    def wrong(self, option: str, message: str) -> None:
        """Notes a mistake, if it is the first of the argument."""
        if not self.is_wrong(option):
            self.mistakes.append(Mistake(option=option, pieces=(message,)))

    def is_wrong(self, option: str) -> bool:
        """Whether a mistake was noted for it."""
        return any(mistake.option == option for mistake in self.mistakes)

    def check(self, options: JobOptions) -> None:
        """Raises `UsageError` with every mistake there is, in what was given or in the options made of it."""
        mistakes = [*self.mistakes, *(mistake for mistake in options.mistakes() if not self.is_wrong(mistake.option))]
        if mistakes:
            pieces: list[str | Mention] = []
            for mistake in mistakes:
                pieces += ["; ", Mention(mistake.option), " ", *mistake.pieces]
            raise UsageError(tuple(pieces[1:]))

    def path(self, option: str, value: object) -> str:
        """A path as text, also one that means no file: `-`, a URL with ranges."""
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            self.wrong(option, f"must be one path or text, not {kind_of(value)}")
            return ""
        try:
            # The name of a file may have bytes that are no UTF-8.
            os.fsencode(path)
        except UnicodeEncodeError:
            self.wrong(option, LONE_SURROGATE)
        return path

    def inputs(self, option: str, value: object) -> tuple[str, ...]:
        """Paths as text, or one."""
        if isinstance(value, str | os.PathLike):
            return (self.path(option, value),)
        if isinstance(value, bytes) or not isinstance(value, Iterable):
            self.wrong(option, f"must be a path, text, or a list of them, not {kind_of(value)}")
            return ()
        return tuple(self.path(option, one) for one in value)

    def path_or_none(self, option: str, value: object) -> str | None:
        """A path that need not be."""
        return None if value is None else self.path(option, value)

    def columns(self, option: str, value: object) -> tuple[str, ...]:
        """Names of columns."""
        if isinstance(value, str):
            if value == ALL_COLUMNS:
                return (value,)
            self.wrong(option, f"must be a list of columns: write [{value!r}]")
            return ()
        names = tuple(value) if isinstance(value, Iterable) else None
        if names is None or not all(isinstance(name, str) for name in names):
            self.wrong(option, "must be a list of columns, each of them text")
            return ()
        return names

    def headers(self, option: str, value: object) -> list[tuple[str, str]]:
        """Headers in the order in which they were given, repeats kept."""
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            self.wrong(option, f"must be a mapping or pairs, not {kind_of(value)}: {_WRITE_HEADERS}")
            return []
        pairs = []
        for item in value.items() if isinstance(value, Mapping) else value:
            if not isinstance(item, tuple | list) or len(item) != 2:  # noqa: PLR2004 - a pair
                self.wrong(option, f"must hold pairs of name and value, not {kind_of(item)}: {_WRITE_HEADERS}")
            elif not isinstance(item[0], str):
                self.wrong(option, f"must have names that are text, not {kind_of(item[0])}")
            elif not isinstance(item[1], str):
                self.wrong(option, f"must have values that are text: that of {item[0]!r} is {kind_of(item[1])}")
            else:
                pairs.append((item[0], item[1]))
        return pairs

    def token(self, option: str, value: object) -> str | None:
        """A secret, or what is in the file of a path."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, os.PathLike):
            self.wrong(option, f"must be text, or the path of a file, not {kind_of(value)}")
            return None
        try:
            return _secret_file.read(os.fspath(value))
        except ValueError as error:
            self.wrong(option, str(error))
            return None

    def user(self, option: str, value: object) -> bytes | None:
        """A name and a password, as they are encoded."""
        return self.data(option, self.token(option, value))

    def names(self, option: str, value: object) -> tuple[str, ...]:
        """Names of headers, or one."""
        given = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
        names = tuple(name for name in given if isinstance(name, str))
        if len(names) != len(given):
            self.wrong(option, "must be the name of a header or a list of names, each of them text")
            return ()
        return names

    def texts(self, option: str, value: object) -> tuple[str, ...]:
        """Texts, or one."""
        texts, other = _texts_in(value)
        if other is not None:
            self.wrong(option, f"must be text or a list, each of them text, not {other}")
            return ()
        return texts

    def listed_names(self, option: str, value: object) -> tuple[str, ...]:
        """Names between commas, or a list of names."""
        if isinstance(value, str):
            return tuple(filter(None, (name.strip() for name in value.split(","))))
        names, other = _texts_in(value)
        if other is not None:
            self.wrong(option, f"must be a list of columns, each of them text, not {other}: {_WRITE_LIST}")
            return ()
        return names

    def selection(self, option: str, value: object) -> tuple[str, ...]:
        """What is selected, as `name=path`; a mapping has names and paths."""
        parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
        texts, other = _texts_in(parts)
        if other is not None:
            self.wrong(option, f"must be a mapping of names to paths, text or a list, not {other}: {_WRITE_SELECTION}")
            return ()
        return tuple(f"{name}={path}" for name, path in value.items()) if isinstance(value, Mapping) else texts

    def json(self, option: str, value: object) -> str | None:
        """A JSON document as text; a mapping or a list becomes one."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, Mapping | list):
            self.wrong(option, f"must be a mapping, a list, or text with JSON, not {kind_of(value)}")
            return None
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.wrong(option, f"can't be written as JSON: {error}")
            return None

    def ports(self, option: str, value: object) -> tuple[str, ...]:
        """Ports, or one, as text; whether each can be is for the options to say."""
        given = (value,) if isinstance(value, int | str) or not isinstance(value, Iterable) else tuple(value)
        others = [one for one in given if not isinstance(one, int | str) or isinstance(one, bool)]
        if others:
            self.wrong(option, f"must be a port or a list of ports, not {kind_of(others[0])}: {_WRITE_PORTS}")
            return ()
        return tuple(map(str, given))

    def proxies(self, option: str, value: object) -> tuple[str, ...]:
        """URLs of proxies, or one, or what is on the lines of a file."""
        if not isinstance(value, os.PathLike):
            return self.texts(option, value)
        text = self.token(option, value)
        if text is None:
            return ()
        found = tuple(filter(None, map(str.strip, text.splitlines())))
        if not found:
            self.wrong(option, f"{os.fspath(value)!r} has nothing in it")
        return found

    def per_host(self, option: str, value: object) -> tuple[tuple[str, str], ...] | None:
        """Hosts, each with its limit as text, which the engine reads; `None`: no limit."""
        if value is None:
            return None
        pairs = tuple(value.items()) if isinstance(value, Mapping) else ((ANY_HOST, value),)
        for host, limit in pairs:
            if not isinstance(host, str):
                self.wrong(option, f"must name hosts in text, not {kind_of(host)}: {_WRITE_PER_HOST[option]}")
            elif not isinstance(limit, int | str) or isinstance(limit, bool):
                self.wrong(option, f"can't be {kind_of(limit)}: {_WRITE_PER_HOST[option]}")
        return tuple((str(host), str(limit)) for host, limit in pairs)

    def share(self, option: str, value: object) -> str | None:
        """A share or a number of rows, as text."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(option, f"must be text such as '50%', or a number of rows, not {kind_of(value)}")
            return None
        return str(value)

    def statuses(self, option: str, value: object) -> str:
        """Statuses as the text that the options hold; whether each can be is for the options to say."""
        return self._listed(option, value, "statuses", _WRITE_STATUSES)

    def failures(self, option: str, value: object) -> str:
        """Kinds of errors, statuses and classes, likewise."""
        return self._listed(option, value, "failures", _WRITE_FAILURES)

    def _listed(self, option: str, value: object, of_what: str, write: str) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bytes) or not isinstance(value, Iterable):
            self.wrong(option, f"must be text or a list of {of_what}, not {kind_of(value)}: {write}")
            return ""
        parts = list(value)
        for part in parts:
            if not isinstance(part, int | str) or isinstance(part, bool):
                self.wrong(option, f"must hold numbers and text, not {kind_of(part)}: {write}")
        return ",".join(map(str, parts))

    def kinds(self, option: str, value: object) -> tuple[str, ...]:
        """Kinds of failures, `None` being all; whether there are such is for the engine to say."""
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(","))
        kinds = None if isinstance(value, bytes) or not isinstance(value, Iterable) else tuple(value)
        if kinds is None or not all(isinstance(kind, str) for kind in kinds):
            self.wrong(option, f"must be text or a list of texts: {_WRITE_KINDS}")
            return ()
        if not kinds:
            # A list that was computed and came out empty does not mean all of them.
            self.wrong(option, f"is empty: {_WRITE_KINDS}, or leave it out to ask all failed rows again")
        return tuple(kind.strip() for kind in kinds)

    def data(self, option: str, value: object) -> bytes | None:
        """A request body; text goes as UTF-8."""
        if value is None or isinstance(value, bytes):
            return value
        if not isinstance(value, str):
            self.wrong(option, f"must be bytes or text, not {kind_of(value)}")
            return None
        try:
            text(value)
        except ValueError as error:
            self.wrong(option, str(error))
            return None
        return value.encode()


def settings_of(output: str | None, given: Mapping[str, Any]) -> SetOptions:
    """What was given to be set.

    Raises:
        UsageError: An option can't be set to that, or none is given.
        TypeError: There is no such option.
    """
    arguments = Arguments()
    asked = SetOptions(output=output, **arguments.read(SET, given))
    arguments.check(asked)
    if not given:
        raise UsageError(("name an option to set, such as ", Mention("rate", "50/s")))
    return asked


def _texts_in(value: object) -> tuple[tuple[str, ...], str | None]:
    """Texts, or one; and, if one is no text, of what type that is."""
    if isinstance(value, str):
        return (value,), None
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        return (), kind_of(value)
    items = tuple(value)
    return items, next((kind_of(item) for item in items if not isinstance(item, str)), None)
