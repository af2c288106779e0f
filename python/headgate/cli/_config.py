"""`--config FILE`: a TOML file with a table for each verb, whose keys are the options.

The values are read as if they had been typed; what was typed on the command line wins.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headgate._checks import kind_of
from headgate._nearest import nearest
from headgate.cli._files import FROM_ENVIRONMENT, HEADER_ENV, REFERENCES
from headgate.cli._flag import Flag
from headgate.cli._verbs import VERBS

CONFIG: Final = "config"
"""The name of the flag."""

MAX_BYTES: Final = 1024**2

_HEADERS: Final = ("headers", "header_templates")
_SECRETS: Final = ("bearer", "user")
_PROXY: Final = "proxy"
_JSON: Final = "json"


class Config:
    """The options of a verb in a file."""

    def __init__(self, path: str, verb: str, flags: Iterable[Flag], mistake: Callable[[str], None]) -> None:
        """Takes the flags of the verb; `mistake` is called with each mistake."""
        self._path = path
        self._verb = verb
        self._flags: dict[str, Flag] = {}
        for flag in flags:
            self._flags.setdefault(flag.dest, flag)
        self._mistake = mistake
        self._secret_headers: set[str] = set()

    def read(self, inputs: str) -> dict[str, Any]:
        """Returns what would have been typed, by `dest`; `inputs` is the `dest` of the argument."""
        table = self._table()
        typed: dict[str, Any] = {}
        secret_headers = table.get("secret_headers", [])
        names = secret_headers if isinstance(secret_headers, list) else [secret_headers]
        self._secret_headers = {name.lower() for name in names if isinstance(name, str)}
        for key, value in table.items():
            if key == inputs:
                typed[key] = self._texts(key, value if isinstance(value, list) else [value])
            elif key in self._flags and key != CONFIG:
                self._add(typed, self._flags[key], value)
            else:
                flag = f"--{key.replace('_', '-')}"
                of_flag = next((dest for dest, each in self._flags.items() if flag in each.names), None)
                hint = of_flag or nearest(key.replace("-", "_"), [*self._flags, *filter(None, [inputs])])
                self._mistake(f"{self.where(key)} is not an option" + (f": did you mean {hint}?" if hint else ""))
        return typed

    def where(self, key: str) -> str:
        """Returns the place of an option for messages."""
        key = "headers" if key == HEADER_ENV else key
        return f"{self._path}: [{self._verb}] {key}"

    def _table(self) -> Mapping[str, Any]:
        import tomllib  # noqa: PLC0415 - only with --config

        from headgate.jobs import _secret_file  # noqa: PLC0415 - as above

        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - a path as it was typed
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                self._mistake(f"--config {self._path!r} has more than {MAX_BYTES // 1024**2} MiB")
                return {}
            tables = tomllib.loads(data.decode())
        except OSError as error:
            self._mistake(f"--config can't read {self._path!r}: {_secret_file.reason(error)}")
            return {}
        except ValueError as error:  # neither TOML nor UTF-8
            self._mistake(f"--config {self._path!r} is not TOML: {error}")
            return {}
        for name, table in tables.items():
            if not isinstance(table, dict):
                self._mistake(f"{self._path}: {name} is in no table: write it below [{self._verb}]")
            elif name not in VERBS:
                hint = nearest(name, VERBS)
                self._mistake(f"{self._path}: [{name}] is no verb" + (f": did you mean [{hint}]?" if hint else ""))
        if self._verb not in tables:
            others = ", ".join(f"[{name}]" for name in tables if name in VERBS)
            self._mistake(f"{self._path}: [{self._verb}] is missing" + (f": it has {others}" if others else ""))
        of_verb = tables.get(self._verb, {})
        return of_verb if isinstance(of_verb, dict) else {}

    def _add(self, typed: dict[str, Any], flag: Flag, value: object) -> None:
        dest = flag.dest
        if flag.metavar is None:
            if not isinstance(value, bool):
                self._mistake(f"{self.where(dest)} must be true or false, not {kind_of(value)}")
            elif value is not flag.names[-1].startswith("--no-"):
                typed[dest] = flag.value
        elif dest == _JSON and isinstance(value, dict | list):
            import json  # noqa: PLC0415 - not for the help

            try:
                typed[dest] = json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                self._mistake(f"{self.where(dest)} has a value that JSON doesn't have, such as a date or nan")
        elif isinstance(value, dict) and flag.repeats:
            self._add_pairs(typed, dest, value)
        else:
            for text in self._texts(dest, value if isinstance(value, list) and flag.repeats else [value]):
                self._add_text(typed, dest, text)
            if not flag.repeats and dest in typed:
                (typed[dest],) = typed[dest]

    def _add_pairs(self, typed: dict[str, Any], dest: str, table: Mapping[str, object]) -> None:
        is_header = dest in _HEADERS
        for name, value in table.items():
            for text in self._texts(f"{dest}.{name}", value if isinstance(value, list) and is_header else [value]):
                if is_header and text.startswith(FROM_ENVIRONMENT):
                    typed.setdefault(HEADER_ENV, []).append(f"{name}={text.removeprefix(FROM_ENVIRONMENT)}")
                else:
                    self._add_text(typed, dest, f"{name}: {text}" if is_header else f"{name}={text}")

    def _texts(self, key: str, values: list[object]) -> list[str]:
        """Returns values as they are typed."""
        texts = []
        for value in values:
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                texts.append(str(value))
            else:
                self._mistake(f"{self.where(key)} must be text or a number, not {kind_of(value)}")
        return texts

    def _add_text(self, typed: dict[str, Any], dest: str, text: str) -> None:
        """Adds a value, or a mistake for a secret that is in the file itself; no message has it."""
        from headgate._native import is_credential  # noqa: PLC0415 - only with --config
        from headgate._url_user import without_user  # noqa: PLC0415 - as above

        header = text.partition(":")[0].strip()
        if text.startswith(REFERENCES):
            typed.setdefault(dest, []).append(text)
        elif dest in _HEADERS and (is_credential(header) or header.lower() in self._secret_headers):
            advice = f'write [{self._verb}.headers] and {header} = "env:VARIABLE", or a file of headers as "@FILE"'
            self._mistake(f"{self.where(dest)} has a value of {header}, which is a secret: {advice}")
        elif dest in _SECRETS or (dest == _PROXY and without_user(text) != text):
            self._mistake(f'{self.where(dest)} is a secret: write "@FILE" or "env:VARIABLE"')
        else:
            typed.setdefault(dest, []).append(text)
