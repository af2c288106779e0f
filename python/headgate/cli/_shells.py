"""Scripts that complete the command line in a shell, made from the flags of the parsers."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headgate.cli._flag import Choices, Flag

_PROGRAM: Final = "headgate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """The flags and the argument of a verb.

    Attributes:
        text: The description.
        flags: The flags.
        argument: The possible values of its argument; `None`: it has none.
        metavar: The placeholder for the argument in the help.
        repeats: Whether there can be several arguments.
    """

    text: str
    flags: Sequence[Flag]
    argument: Choices
    metavar: str
    repeats: bool = False


def bash(verbs: Mapping[str, Verb]) -> str:
    """Returns the script for bash 4.4 or newer, which splits `--flag=VALUE` at `=`."""
    values, flags, arguments = [], [], []
    for name, verb in verbs.items():
        for choices, group in _by_choices(verb.flags):
            values.append(f"        {'|'.join(f'{name}:{flag}' for flag in group)}) {_bash(choices)}; return ;;")
        flags.append(f"        {name}:-*) {_bash(tuple(_all(verb.flags)))} ;;")
        arguments.append(f"        {name}:*) {_bash(verb.argument)} ;;")
    lines = "\n".join
    return f"""\
_{_PROGRAM}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}}
    [[ $before == = ]] && before=${{COMP_WORDS[COMP_CWORD-2]}}
    [[ $word == = ]] && word=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        {_bash((*verbs, "--help", "--version"))}
        return
    fi
    case $verb:$before in
{lines(values)}
    esac
    case $verb:$word in
{lines(flags)}
{lines(arguments)}
    esac
}}
complete -F _{_PROGRAM} {_PROGRAM}
"""


def _bash(choices: Choices) -> str:
    if choices == "files":
        return "compopt -o default"
    return f'mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(choices))} -- "$word")' if choices else ":"


def zsh(verbs: Mapping[str, Verb]) -> str:
    """Returns the script for zsh, for a file in `$fpath` or for `eval`."""
    described = "\n".join(f"        {shlex.quote(f'{name}:{verb.text}')}" for name, verb in verbs.items())
    cases = "\n".join(f"        {name}) _arguments -s {' '.join(_zsh_specs(verb))} ;;" for name, verb in verbs.items())
    return f"""\
#compdef {_PROGRAM}
_{_PROGRAM}() {{
    local context state state_descr line
    local -A opt_args
    local -a verbs=(
{described}
    )
    _arguments -C '(- *)'{{-h,--help}}'[print the verbs]' '(- *)'{{-V,--version}}'[print the version]' \\
        '1:verb:->verb' '*::argument:->rest'
    case $state in
    verb) _describe verb verbs ;;
    rest)
        case $words[1] in
{cases}
        esac ;;
    esac
}}
if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then
    _{_PROGRAM} "$@"
else
    compdef _{_PROGRAM} {_PROGRAM}
fi
"""


def _zsh_specs(verb: Verb) -> Iterable[str]:
    for flag in verb.flags:
        value = "" if flag.metavar is None else f":{_zsh_text(flag.metavar)}:{_zsh(flag.choices)}"
        others = "*" if flag.repeats else f"({' '.join(flag.names)})"
        for name in flag.names:
            takes = "=" if value and name.startswith("--") else ""
            yield shlex.quote(f"{others}{name}{takes}[{_zsh_text(flag.text)}]{value}")
    if verb.argument is not None:
        yield shlex.quote(f"{'*' if verb.repeats else '1'}:{verb.metavar}:{_zsh(verb.argument)}")


def _zsh(choices: Choices) -> str:
    if choices == "files":
        return "_files"
    return f"({' '.join(choices)})" if choices else " "


def _zsh_text(text: str) -> str:
    for letter in "\\[]:":
        text = text.replace(letter, f"\\{letter}")
    return text


def fish(verbs: Mapping[str, Verb]) -> str:
    """Returns the script for fish."""
    lines = [f"complete -c {_PROGRAM} -f"]
    for name, verb in verbs.items():
        lines.append(f"complete -c {_PROGRAM} -n __fish_use_subcommand -a {name} -d {_fish_text(verb.text)}")
    for name, verb in verbs.items():
        begin = f"complete -c {_PROGRAM} -n '__fish_seen_subcommand_from {name}'"
        lines.extend(
            f"{begin} {' '.join(_fish_name(each) for each in flag.names)}{_fish(flag.choices, flag)}"
            f" -d {_fish_text(flag.text)}"
            for flag in verb.flags
        )
        if verb.argument == "files":
            lines.append(f"{begin} -F")
        elif verb.argument:
            lines.append(f"{begin} -a {_fish_text(' '.join(verb.argument))}")
    return "\n".join(lines) + "\n"


def _fish(choices: Choices, flag: Flag) -> str:
    if flag.metavar is None:
        return ""
    if choices == "files":
        return " -r -F"
    return f" -x -a {_fish_text(' '.join(choices))}" if choices else " -x"


def _fish_name(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _all(flags: Iterable[Flag]) -> Iterable[str]:
    return (name for flag in flags for name in flag.names)


def _by_choices(flags: Iterable[Flag]) -> Iterable[tuple[Choices, list[str]]]:
    """Groups the flags that have a value by their possible values."""
    groups: dict[Choices, list[str]] = {}
    for flag in flags:
        if flag.metavar is not None:
            groups.setdefault(flag.choices, []).extend(flag.names)
    return groups.items()


SCRIPTS: Final[Mapping[str, Callable[[Mapping[str, Verb]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
