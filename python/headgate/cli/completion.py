"""`headgate completion`: prints the script with which a shell completes the command line."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from headgate.cli._groups import GROUPS, TOPICS
from headgate.cli._parser import Parser
from headgate.cli._shells import SCRIPTS, Verb
from headgate.cli._verbs import HELP, VERBS

_EXAMPLES: Final = """\
examples:
  headgate completion bash >> ~/.bashrc
  headgate completion zsh > "${fpath[1]}/_headgate"
  headgate completion fish > ~/.config/fish/completions/headgate.fish"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and prints the script."""
    values = parser().read(arguments)
    if values is None:
        return 0
    shell = values.argument("shell")
    if shell not in SCRIPTS:
        known = ", ".join(SCRIPTS)
        values.wrong("shell", f"must be one of {known}, not {shell}" if shell else f"is missing: one of {known}")
    values.check()
    verbs = {name: _verb(name, text) for name, text in VERBS.items()}
    verbs["help"] = Verb(text=HELP, flags=(), argument=(*VERBS, *GROUPS, *TOPICS), metavar="VERB or TOPIC")
    print(SCRIPTS[shell](verbs), end="")
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "completion",
        usage="SHELL",
        description="Prints a script with which a shell completes what is typed after headgate.",
        examples=_EXAMPLES,
    )
    made.group("for what")
    made.argument("shell", "SHELL", f"one of {', '.join(SCRIPTS)}", choices=tuple(SCRIPTS))
    return made


def _verb(name: str, text: str) -> Verb:
    made: Parser = import_module(f"headgate.cli.{name}").parser()
    return Verb(
        text=text,
        flags=made.flags(),
        argument=made.argument_choices,
        metavar=made.argument_metavar,
        repeats=made.argument_repeats,
    )
