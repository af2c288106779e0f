"""Writes the tables in the documentation that come from the code: `make docs`.

Such a table is between `<!-- generated: NAME -->` and `<!-- /generated -->`, and is replaced as a whole. A test
compares every page with the output of this script. It also writes the description of the package, which is README.md
with links that lead to the repository.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Final

from headgate import _native
from headgate.cli import _exit_codes, _option_flags
from headgate.cli._groups import GROUPS
from headgate.jobs._option_entry import JobOption
from headgate.jobs._options import ENTRIES, FETCH, RETRY, SECTIONS

ROOT: Final = Path(__file__).parents[1]
_WIDTH: Final = 120
_TABLE: Final = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def filled(page: str) -> str:
    """Returns a page with its current tables."""
    return _TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", page)


def _options(group: str) -> str:
    """Returns a table of options: flags, keyword, default and description."""
    return _table(
        ["option", "Python", "default", ""],
        (
            [_flags(name, option), _keyword(name, option), _default(option), _help(option)]
            for name, option in _option_flags.typed(FETCH, group).items()
        ),
    )


def _flags(name: str, option: JobOption) -> str:
    *others, last = option.flags_of(name)
    return ", ".join(f"`{flag}`" for flag in [*others, f"{last} {option.metavar}".rstrip()])


def _help(option: JobOption) -> str:
    """Returns the description of a flag; one that turns something off has one of its own."""
    text = option.flag_help
    return f"{text[0].upper()}{text[1:]}." if option.default is True and text else option.help


def _keyword(name: str, option: JobOption) -> str:
    """Returns the keyword of Python; a flag that turns something off is a keyword that is on by default."""
    return f"`{name}=False`" if option.default is True else f"`{name}`"


def _default(option: JobOption) -> str:
    default = _option_flags.default_of(option)
    return default if option.default_means or not default else f"`{default}`"


def _job_options() -> str:
    """Returns the options that are part of a job's identity."""
    return _listed(option.flags_of(name)[-1] for name, option in _option_flags.typed(FETCH).items() if option.of_job)


def _retry_options() -> str:
    """Returns the options of a retry."""
    return _listed(option.flags_of(name)[-1] for name, option in _option_flags.typed(RETRY).items())


KEYWORDS: Final = ROOT / "python/headgate/jobs/_keywords.py"
_TYPES: Final = {
    "switch": "bool",
    "whole": "int",
    "size": "int",
    "seconds": "float | timedelta",
    "text": "str",
    "path": "StrPath",
    "data": "str | bytes",
    "json": "Json",
    "selection": "Selection",
    "headers": "Headers",
    "header_templates": "Headers",
    "token": "StrPath",
    "user": "StrPath",
    "ports": "int | str | Iterable[int | str]",
    "proxies": "StrPath | Iterable[str]",
    "statuses": "Statuses",
    "failures": "str | Iterable[str | int]",
    "limit_per_host": "int | str | Mapping[str, int | str]",
    "rate_per_host": "str | Mapping[str, str]",
    "share": "str | int",
    "kinds": "str | Iterable[str | int]",
    **dict.fromkeys(["list", "names", "texts", "columns"], "str | Iterable[str]"),
}


def keywords() -> str:
    """The module with the types of the options, section by section."""
    lines = [
        '"""The types of the options that the engine has, for type checkers: written by `make docs`."""',
        "",
        "from collections.abc import Iterable, Mapping",
        "from datetime import timedelta",
        "from typing import Literal, TypedDict",
        "",
        "from headgate.jobs._option_entry import Headers, Json, Selection, Statuses, StrPath",
    ]
    for section, about in SECTIONS:
        options = {name: option for name, option in ENTRIES.items() if option.section == section and option.group}
        if options:
            lines += ["", "", f"class {section}(TypedDict, total=False):", f'    """{about}"""', ""]
            lines += [f"    {name}: {_type(option)}" for name, option in options.items()]
    return "\n".join([*lines, ""])


def _type(option: JobOption) -> str:
    choices = ", ".join(f'"{choice}"' for choice in option.choices)
    needed = f"Literal[{choices}]" if choices else _TYPES[option.given_as]
    return f"{needed} | None" if option.default is None else needed


DESCRIPTION: Final = ROOT / "python/README.md"


def description() -> str:
    """Returns README.md with links that work on a page outside of the repository, to the files of this version."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = f"{project['urls']['Repository']}/blob/v{version.replace('-', '')}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:|#)", f"]({address}/", readme)


def _listed(flags: Iterable[str]) -> str:
    """Returns flags as a sentence."""
    *others, last = [f"`{flag}`" for flag in flags]
    return fill(f"{', '.join(others)} and {last}.", width=_WIDTH, break_on_hyphens=False)


def _exit_codes_table(meanings: Mapping[int, str]) -> str:
    return _table(["exit code", ""], ([str(code), meaning] for code, meaning in meanings.items()))


def _error_kinds() -> str:
    return _table(["`error`", "when"], ([f"`{name}`", when] for name, when in _native.ERROR_KINDS))


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ([cell.replace("|", r"\|") for cell in cells] for cells in (head, ["---"] * len(head), *rows))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    **{f"{group} options": partial(_options, group) for group in GROUPS if _option_flags.typed(FETCH, group)},
    "options of a job": _job_options,
    "options of a retry": _retry_options,
    "exit codes": partial(_exit_codes_table, _exit_codes.MEANINGS),
    "exit codes of status": partial(_exit_codes_table, _exit_codes.STATUS_MEANINGS),
    "kinds of errors": _error_kinds,
}


def main() -> None:
    """Writes every page, the types of options and the description of the package anew."""
    whole = {KEYWORDS: keywords, DESCRIPTION: description}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *whole]:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = whole[path]() if path in whole else filled(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
