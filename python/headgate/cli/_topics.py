"""The pages of `headgate help` that belong to no verb."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headgate._native import ERROR_KINDS
from headgate._nearest import nearest
from headgate.cli import _exit_codes, _foreign
from headgate.cli._fetch_flags import parser
from headgate.cli._flag import Flag
from headgate.cli._groups import ERRORS, EXIT_CODES, GROUPS, TEMPLATES, TOPICS
from headgate.cli._verbs import VERBS
from headgate.cli._wrapping import help_width, listed, wrapped
from headgate.jobs._options import FETCH

_COLUMN: Final = 6
"""The column at which descriptions begin, below their names."""

_STATUS: Final = "headgate status"
_KINDS: Final = dict(ERROR_KINDS)
_KINDS_OF_TIMEOUTS: Final = {"connect_timeout": "timeout"}
"""Error kinds that --retry-on includes in others."""

_FLAGS_FOR: Final = {
    "blocked_by_network_policy": "--network, --allow-net and --allow-port",
    "blocked_by_robots": "--obey-robots",
    "body_too_large": "--max-body-size and --truncate-body",
    "checksum_mismatch": "--checksum-column",
    "connect_timeout": "--connect-timeout",
    "credentials": "--bearer, -u, -H, --token-command and --credentials-for",
    "decode": "--no-decode",
    "dns": "--dns-server",
    "duplicate_name": "--save-to",
    "host_down": "--host-down-after and --retry-max-pause",
    "proxy": "--proxy",
    "timeout": "--timeout",
    "tls": "--cacert and --tls-min",
    "too_many_redirects": "--max-redirects",
    "total_timeout": "--total-timeout",
    "unexpected_response": "--require",
}
"""The flags that decide what fails with an error kind."""

_TEMPLATES: Final = """\
templates: values of the input in --url, --json, --data-urlencode, -F, --header-template and --save-to; -d and -H are
sent as they are"""
_BRACES: Final = (
    ("{column}", "the value of the row; a row without one fails as invalid_request"),
    ("{column|default}", "the value, or `default` where there is none; {column|} is empty then"),
    ("{column:string}", "in --json: the value as a string, whatever its type"),
    ("{column:optional}", "in the path of --url: the value may be empty"),
    ("{{ and }}", "a brace"),
)
_TYPES: Final = """\
A value is escaped, so that it can't change the rest of a request. In --json, a string that is nothing but {column}
becomes a value of the column's type; in CSV and TSV, all values are text. A line of a .txt file is {line}."""
_TEMPLATE_EXAMPLES: Final = """\
examples:
  headgate fetch ids.csv -o results --url 'https://api.example.com/items/{id}?lang={lang|en}'
  headgate fetch rows.parquet -o results --url https://api.example.com/items --json '{"n": "{n}"}'"""


def page(topic: str) -> str | None:
    """Returns the page of a group, another topic, an error kind or a flag; `None` if there is none."""
    if topic in GROUPS:
        title, flags, examples = _group(topic)
        found = [title, flags, *_kind(topic), examples]
    elif named := [name for name in TOPICS if topic.replace("_", "-") in (name, name.removesuffix("s"))]:
        found = [_PAGES[named[0]]()]
    else:
        found = [*_flag(topic), *_kind(topic)]
    return "\n\n".join(found) + "\n" if found else None


def hint(topic: str) -> str | None:
    """Returns advice on an unknown topic, if there is some."""
    name = nearest(topic, [*VERBS, *GROUPS, *TOPICS])
    advice = None if name else _foreign.advice(topic) or _foreign.advice(_as_flag(topic))
    name = name or (None if advice else _nearest_name(topic))
    return advice or (name and f"did you mean {name}?")


def as_json() -> str:
    """Returns the flags of each group as JSON."""
    import json  # noqa: PLC0415 - only for this

    groups = {name: [_properties(flag) for flag in _shown(name)] for name in GROUPS}
    return json.dumps(groups, indent=2, ensure_ascii=False) + "\n"


def _group(name: str) -> tuple[str, str, str]:
    """Returns the help of a group: its title, its flags with their whole descriptions, and examples."""
    width = help_width()
    about, examples = GROUPS[name]
    described = "\n".join(_described(flag, width) for flag in _shown(name))
    lines = "\n".join(f"  {example}" for example in examples)
    return wrapped(f"{name}: {about}", width), described, f"examples:\n{lines}"


def _flag(name: str) -> Sequence[str]:
    """Returns the help of one flag, which may be typed without its hyphens, in paragraphs; none if there is no such."""
    width = help_width()
    found = next((flag for flag in parser().flags() if {name, _as_flag(name)} & {*flag.names}), None)
    if found is None:
        return []
    see = [wrapped(f"`headgate help {found.group}` explains the flags of its group", width)] if found.group else []
    return [_described(found, width), *see]


def _kind(name: str) -> Sequence[str]:
    """Returns the help of an error kind, in paragraphs; none if there is no such."""
    kind = name.replace("-", "_")
    if kind not in _KINDS:
        return []
    width = help_width()
    retried = FETCH.entries["retry_on"].option.default.split(",")
    negation = "" if _KINDS_OF_TIMEOUTS.get(kind, kind) in retried else "not "
    see = f" See {_FLAGS_FOR[kind]}." if kind in _FLAGS_FOR else ""
    about = f"An error kind: {_KINDS[kind].replace('`', '')}. It is {negation}retried by default.{see}"
    retry = f"`headgate retry OUT --only {kind}` retries rows that failed with it; `headgate help {ERRORS}` lists all"
    return [f"  {kind}\n{listed([('', about)], width, column=_COLUMN)}", wrapped(retry, width)]


def _errors() -> str:
    width = help_width()
    kinds = [(name, when.replace("`", "")) for name, when in ERROR_KINDS]
    title = f"{ERRORS}: the error kinds of failed rows; --retry-on and --only take them, too"
    return f"{wrapped(title, width)}\n{listed(kinds, width)}"


def _exit_code_tables() -> str:
    width = help_width()
    tables = ((f"all verbs but {_STATUS}", _exit_codes.MEANINGS), (_STATUS, _exit_codes.STATUS_MEANINGS))
    return "\n\n".join(_exit_codes.listing(meanings, width, of=f" of {verbs}") for verbs, meanings in tables)


def _templates() -> str:
    width = help_width()
    lines = (wrapped(_TEMPLATES, width), listed(_BRACES, width), wrapped(_TYPES, width), "", _TEMPLATE_EXAMPLES)
    return "\n".join(lines)


_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    ERRORS: _errors,
    EXIT_CODES: _exit_code_tables,
    TEMPLATES: _templates,
}


def _nearest_name(topic: str) -> str | None:
    """Returns the flag or the error kind that was probably meant, compared without hyphens at the start."""
    flags = (name for flag in parser().flags() if flag.is_shown for name in flag.names)
    names = {_plain(name): name for name in (*_KINDS, *flags)}
    found = nearest(_plain(topic), names)
    return None if found is None else names[found]


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _as_flag(name: str) -> str:
    """Returns a name with the hyphens of a flag: `--retry-on` for `retry_on`."""
    return f"--{_plain(name)}"


def _shown(group_name: str) -> Sequence[Flag]:
    return [flag for flag in parser().flags() if flag.group == group_name and flag.is_shown]


def _described(flag: Flag, width: int) -> str:
    return f"  {flag.usage()}\n{listed([('', _details(flag))], width, column=_COLUMN)}"


def _properties(flag: Flag) -> dict[str, Any]:
    """Returns a flag as JSON has it; `default` and `unit` are those of the keyword in Python."""
    entry = FETCH.entries.get(flag.dest)
    return {
        "name": flag.dest,
        "flags": list(flag.names),
        "value": flag.metavar,
        "default": None if entry is None else entry.option.default,
        "default_means": flag.default,
        "unit": "" if entry is None else entry.option.unit,
        "help": " ".join(_sentences(flag)),
    }


def _details(flag: Flag) -> str:
    default = [f"Default: {flag.default}."] if flag.default else []
    return " ".join([*_sentences(flag), *default])


def _sentences(flag: Flag) -> Sequence[str]:
    repeats = ["Can be repeated."] if flag.details and flag.repeats else []
    return [flag.details or f"{flag.text[0].upper()}{flag.text[1:]}.", *repeats]
