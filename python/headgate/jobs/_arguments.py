"""Reads the arguments of Python functions as values of the options; an argument that can't be read is a mistake.

If a value may be a secret, as in headers and data, messages contain its type and not the value.
"""

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import Any

from headgate._checks import LONE_SURROGATE, figure, kind_of, seconds_of, text
from headgate._errors import UsageError
from headgate._message import Mention
from headgate._option import OptionSet
from headgate._rate_text import rate_text
from headgate.jobs import _secret_file
from headgate.jobs._auth import is_function, is_token_source, must_be, user_of
from headgate.jobs._job_options import JobOptions, Mistake, SetOptions
from headgate.jobs._option_entry import ALL_COLUMNS, NONE, JobOption, is_table
from headgate.jobs._options import SET

_WRITE_PORTS = "write 443 or [443, 8443]"
_WRITE_STATUSES = "write '429,5xx' or [429, '5xx']"
_WRITE_KINDS = "write 'timeout,503' or ['timeout', 503]"
_WRITE_FAILURES = "write 'connect,429' or ['connect', 429]"
_WRITE_PER_HOST = {
    "concurrency_per_host": "write 8, 'auto' or {'slow.example': 2, '*': 8}",
    "rate_per_host": "write '10/s' or {'api.example.com': '5/s', '*': '10/s'}",
}
_WRITE_HEADERS = "give a mapping, as {'Accept': 'text/html'}, or pairs, as [('Accept', 'text/html')]"

_RATES = ("rate", "cost_rate")
_WRITE_LIST = "write 'a,b' or ['a', 'b']"
_WRITE_SELECTION = "write {'answer': '$.answer', 'tokens:int64': '$.usage.total'} or ['answer=$.answer']"


class Arguments:
    """Reads arguments one by one.

    Attributes:
        mistakes: The mistakes so far, at most one for each argument.
    """

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._user_is_auth = False

    def read(self, options: OptionSet[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the given options, each read by its entry. An unknown name raises a `TypeError`."""
        readers: dict[str, Callable[[str, Any], object]] = {
            "path": self.path_or_none,
            "data": self.data,
            "json": self.json,
            "selection": self.selection,
            "list": self.listed_names,
            "headers": self.headers,
            "header_templates": self.headers,
            "token": self.token,
            "user": self.user,
            "auth": self.auth,
            "request_auth": self.request_auth,
            "names": self.names,
            "texts": self.texts,
            "ports": self.ports,
            "proxies": self.proxies,
            "columns": self.columns,
            "statuses": self.statuses,
            "kinds": self.kinds,
            "failures": self.failures,
            "limit_per_host": self.per_host,
            "rate_per_host": self.per_host,
            "share": self.share,
            "seconds": self.seconds,
        }
        options.complete(given)
        values = dict(given)
        self._refuse_two_credentials(given)
        for name in given:
            option = options.entries[name].option
            reader = readers.get(option.given_as) if isinstance(option, JobOption) else None
            reader = self.rate if name in _RATES else reader
            if reader is not None:
                values[name] = reader(name, given[name])
        user = user_of(values.get("auth"))
        if user is not None and not self.is_wrong("auth"):
            self._user_is_auth = True
            values.update(auth=None, user=user)
        return values

    def _refuse_two_credentials(self, given: Mapping[str, Any]) -> None:
        for other in ("bearer", "user"):
            if given.get("auth") is not None and given.get(other) is not None:
                self.wrong("auth", f"can't be combined with {other}: leave one of them out")

    def wrong(self, option: str, message: str) -> None:
        """Adds a mistake, if it is the first of the argument."""
        if not self.is_wrong(option):
            self.mistakes.append(Mistake(option=option, pieces=(message,)))

    def is_wrong(self, option: str) -> bool:
        """Returns whether the option has a mistake."""
        return any(mistake.option == option for mistake in self.mistakes)

    def check(self, options: JobOptions) -> None:
        """Raises `UsageError` with all mistakes of the arguments and of the options made of them."""
        mistakes = [*self.mistakes, *(mistake for mistake in options.mistakes() if not self.is_wrong(mistake.option))]
        if mistakes:
            pieces: list[str | Mention] = []
            for mistake in mistakes:
                option = "auth" if mistake.option == "user" and self._user_is_auth else mistake.option
                pieces += ["; ", Mention(option), " ", *mistake.pieces]
            raise UsageError(tuple(pieces[1:]))

    def seconds(self, option: str, value: object) -> object:
        """Reads a duration: a number of seconds, which the engine checks, or a `timedelta`."""
        del option
        return seconds_of(value)

    def path(self, option: str, value: object) -> str:
        """Reads a path as text, also one that is not a file: `-`, a URL with ranges."""
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            self.wrong(option, f"must be one path or text, not {kind_of(value)}")
            return ""
        try:
            # A file name may have bytes that are not UTF-8.
            os.fsencode(path)
        except UnicodeEncodeError:
            self.wrong(option, LONE_SURROGATE)
        return path

    def inputs(self, option: str, value: object) -> tuple[str, ...]:
        """Reads one or several paths as text."""
        if isinstance(value, str | os.PathLike):
            return (self.path(option, value),)
        if isinstance(value, bytes) or not isinstance(value, Iterable) or is_table(value):
            self.wrong(option, f"must be a path, text, or a list of them, not {kind_of(value)}{_meant_by(value)}")
            return ()
        return tuple(self.path(option, path) for path in value)

    def path_or_none(self, option: str, value: object) -> str | None:
        """Reads an optional path."""
        return None if value is None else self.path(option, value)

    def columns(self, option: str, value: object) -> tuple[str, ...]:
        """Reads names of columns."""
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
        """Reads headers in the given order, including repeated ones."""
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            self.wrong(option, f"must be a mapping or pairs, not {kind_of(value)}: {_WRITE_HEADERS}")
            return []
        pairs = []
        for item in value.items() if isinstance(value, Mapping) else value:
            if not isinstance(item, tuple | list) or len(item) != 2:  # noqa: PLR2004 - a pair
                self.wrong(option, f"must contain pairs of name and value, not {kind_of(item)}: {_WRITE_HEADERS}")
            elif not isinstance(item[0], str):
                self.wrong(option, f"must have names that are text, not {kind_of(item[0])}")
            elif not isinstance(item[1], str):
                self.wrong(option, f"must have values that are text: that of {item[0]!r} is {kind_of(item[1])}")
            else:
                pairs.append((item[0], item[1]))
        return pairs

    def token(self, option: str, value: object) -> str | None:
        """Reads a secret, or the content of a file if the value is a path."""
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
        """Reads a user name and a password, and encodes them."""
        text = self.token(option, value)
        if isinstance(text, _secret_file.SecretText):
            return _secret_file.SecretBytes.encoded(text)
        return self.data(option, text)

    def auth(self, option: str, value: object) -> object:
        """Reads a user and a password, or an object with tokens."""
        if is_function(value):
            self.wrong(option, "can't be a function: those change requests of a client, and here rows are requests")
            return None
        return self._auth(option, value, "or an object with token()")

    def request_auth(self, option: str, value: object) -> object:
        """Reads what `auth` does, or a function that changes requests."""
        if is_function(value):
            return value
        return self._auth(option, value, "a function, or an object with token()")

    def _auth(self, option: str, value: object, kinds: str) -> object:
        if is_token_source(value):
            ttl = seconds_of(getattr(value, "ttl", None))
            if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0):
                self.wrong(option, f"must have a ttl in seconds above 0, or None, not {ttl!r}")
        elif value is not None and user_of(value) is None:
            self.wrong(option, must_be(value, kinds))
            return None
        return value

    def names(self, option: str, value: object) -> tuple[str, ...]:
        """Reads one or several names of headers."""
        given = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
        names = tuple(name for name in given if isinstance(name, str))
        if len(names) != len(given):
            self.wrong(option, "must be the name of a header or a list of names, each of them text")
            return ()
        return names

    def texts(self, option: str, value: object) -> tuple[str, ...]:
        """Reads one or several texts."""
        texts, other = _texts_in(value)
        if other is not None:
            self.wrong(option, f"must be text or a list, each of them text, not {other}")
            return ()
        return texts

    def listed_names(self, option: str, value: object) -> tuple[str, ...]:
        """Reads names that are separated by commas, or a list of names."""
        if isinstance(value, str):
            return tuple(filter(None, (name.strip() for name in value.split(","))))
        names, other = _texts_in(value)
        if other is not None:
            self.wrong(option, f"must be a list of columns, each of them text, not {other}: {_WRITE_LIST}")
            return ()
        return names

    def selection(self, option: str, value: object) -> tuple[str, ...]:
        """Reads selections as `name=path`; a mapping has names and paths."""
        parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
        texts, other = _texts_in(parts)
        if other is not None:
            self.wrong(option, f"must be a mapping of names to paths, text or a list, not {other}: {_WRITE_SELECTION}")
            return ()
        return tuple(f"{name}={path}" for name, path in value.items()) if isinstance(value, Mapping) else texts

    def json(self, option: str, value: object) -> str | None:
        """Reads a JSON document as text; a mapping or a list is encoded as one."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, Mapping | list):
            self.wrong(option, f"must be a mapping, a list, or text with JSON, not {kind_of(value)}")
            return None
        import json  # noqa: PLC0415 - for this option alone

        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.wrong(option, f"can't be written as JSON: {error}")
            return None

    def ports(self, option: str, value: object) -> tuple[str, ...]:
        """Reads one or several ports as text; the options check their values."""
        given = (value,) if isinstance(value, int | str) or not isinstance(value, Iterable) else tuple(value)
        invalid = [port for port in given if not isinstance(port, int | str) or isinstance(port, bool)]
        if invalid:
            self.wrong(option, f"must be a port or a list of ports, not {kind_of(invalid[0])}: {_WRITE_PORTS}")
            return ()
        return tuple(map(str, given))

    def proxies(self, option: str, value: object) -> tuple[str, ...]:
        """Reads one or several URLs of proxies, or the lines of a file."""
        if not isinstance(value, os.PathLike):
            return self.texts(option, value)
        return _secret_file.lines_of(self.token(option, value) or "")

    def rate(self, option: str, value: object) -> object:
        """Reads a rate, which the engine parses; the error of a number has its text."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.wrong(option, f"must be text such as {rate_text(value)}, not {kind_of(value)}")
        return value

    def per_host(self, option: str, value: object) -> str | None:
        """Reads hosts with their limits as text, which the engine parses; `None` is no limit."""
        if value is None or isinstance(value, str):
            return value
        for host, limit in value.items() if isinstance(value, Mapping) else [("", value)]:
            if option == "rate_per_host":
                self.rate(option, limit)
            if not isinstance(host, str):
                self.wrong(option, f"must name hosts in text, not {kind_of(host)}: {_WRITE_PER_HOST[option]}")
            elif not isinstance(limit, int | str) or isinstance(limit, bool):
                self.wrong(option, f"can't be {kind_of(limit)}: {_WRITE_PER_HOST[option]}")
        if isinstance(value, Mapping):
            return ",".join(f"{host}={limit}" for host, limit in value.items()) or None
        return str(value)

    def share(self, option: str, value: object) -> str | None:
        """Reads a share or a number of rows as text."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(option, f"must be text such as '50%', or a number of rows, not {kind_of(value)}")
            return None
        return str(value)

    def statuses(self, option: str, value: object) -> str:
        """Reads statuses as text; the options check their values."""
        return self._listed(option, value, "statuses", _WRITE_STATUSES)

    def failures(self, option: str, value: object) -> str:
        """Reads error kinds, statuses and classes of statuses as text; the options check their values."""
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
                self.wrong(option, f"must contain numbers and text, not {kind_of(part)}: {write}")
        return ",".join(map(str, parts))

    def kinds(self, option: str, value: object) -> tuple[str, ...] | None:
        """Reads error kinds and statuses; `None` means all failures. The engine checks whether they exist."""
        if value is None:
            return None
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(","))
        kinds = None if isinstance(value, bytes) or not isinstance(value, Iterable) else tuple(value)
        if kinds is None or not all(isinstance(kind, str | int) and not isinstance(kind, bool) for kind in kinds):
            self.wrong(option, f"must be text or a list of texts and statuses: {_WRITE_KINDS}")
            return None
        return tuple(str(kind).strip() for kind in kinds)

    def data(self, option: str, value: object) -> bytes | None:
        """Reads a request body; text is encoded as UTF-8."""
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
    """Returns the options to set.

    Raises:
        UsageError: An option has an invalid value, or none is given.
        TypeError: There is no such option.
    """
    arguments = Arguments()
    values = arguments.read(SET, given)
    settings = SetOptions(output=output, texts={name: _as_setting(value) for name, value in values.items()})
    arguments.check(settings)
    if not given:
        raise UsageError(("name an option to set, such as ", Mention("rate", "50/s")))
    return settings


_TABLE_ROWS = {"to_pylist": "to_pylist()", "to_dicts": "to_dicts()", "to_dict": "to_dict('records')"}
"""How rows are made of tables of pyarrow, polars and pandas, by the method that these have."""


def _meant_by(value: object) -> str:
    """Returns the end of a message about an input that can't be read: what reads it."""
    if isinstance(value, AsyncIterable):
        return ": AsyncClient.fetch_many and amap_batches read an async iterable"
    if not is_table(value):
        return ""
    rows = next((f", and .{call} makes rows of it" for name, call in _TABLE_ROWS.items() if hasattr(value, name)), "")
    return f": headgate.fetch_table takes tables{rows}"


def _as_setting(value: object) -> str:
    """Returns a value as `headgate set` takes it."""
    if value is None:
        return NONE
    if isinstance(value, _secret_file.SecretText):
        # The secret itself is not stored.
        return f"@{value.path}"
    return figure(value) if isinstance(value, int) else str(value)


def _texts_in(value: object) -> tuple[tuple[str, ...], str | None]:
    """Returns one or several texts, and the type of the first value that is not text."""
    if isinstance(value, str):
        return (value,), None
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        return (), kind_of(value)
    items = tuple(value)
    return items, next((kind_of(item) for item in items if not isinstance(item, str)), None)
