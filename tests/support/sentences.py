"""The sentences in the string literals of the code: of Rust by its tokens, of Python by its syntax tree."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TOKEN: Final = re.compile(
    r"""
      //[^\n]*                                         # a comment
    | (?<!\w)b?r(?P<hashes>\#*)".*?"(?P=hashes)        # a raw string
    | (?<!\w)b"(?:[^"\\]|\\.)*"                        # bytes
    | (?<!\w)b?'(?:[^'\\\n]|\\[^\n]{1,8}?)'            # a character
    | \.expect\(\s*"(?:[^"\\]|\\.)*"                   # why something can't fail
    | "(?P<text>(?:[^"\\]|\\.)*)"
    | OptionName::(?P<option>\w+)(?P<set>\.set\()?
    | (?P<message>\bmessage!\()
    | (?P<parenthesis>[()])
    | (?P<tests>\#\[cfg\(test\)\]\s*mod\s)
    """,
    re.VERBOSE | re.DOTALL,
)
CONTINUATION: Final = re.compile(r"\\\n\s*")
SENTENCE: Final = re.compile(r"[a-z]{2,}[,;:]? [a-z]{2,}", re.IGNORECASE)
ELSEWHERE: Final = {"tests", "testing", "laws", "option_entries"}
"""Modules for tests, and the table of options, which docs/fetch.md has."""


def of_engine(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yields the files of the engine with their sentences."""
    for path in sorted(root.glob("crates/*/src/**/*.rs")):
        _, crate, _, *modules = path.relative_to(root).with_suffix("").parts
        if crate != "headgate-testserver" and not ELSEWHERE & {*modules}:
            yield path, list(in_rust(path.read_text(encoding="utf-8")))


def of_package(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yields the modules of the package with their sentences."""
    for path in sorted(root.glob("python/headgate/**/*.py")):
        yield path, list(in_python(path.read_text(encoding="utf-8")))


def in_rust(code: str) -> Iterator[str]:
    """Yields the literals that have two words or more, up to the tests at the end of the file.

    The literals and options of one `message!` are one sentence. A placeholder such as `{name}` stays as it is.
    """
    parts: list[str] = []
    depth = 0
    for token in TOKEN.finditer(code):
        if token["tests"]:
            return
        if token["message"] and not depth:
            parts, depth = [], 1
            continue
        if depth:
            parts.append(_option(token) if token["option"] else _text(token["text"]))
            depth += bool(token["message"] or token["set"]) + token[0].startswith(".expect(")
            depth += (token["parenthesis"] == "(") - (token["parenthesis"] == ")")
        else:
            parts = [_text(token["text"])]
        text = "".join(parts)
        if not depth and SENTENCE.search(text):
            yield text


def in_python(code: str) -> Iterator[str]:
    """Yields the literals that have two words or more and are no docstrings; `{name}` stands for a value."""
    tree = ast.parse(code)
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)]
    within = {part for node in literals if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part != node}
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in sorted(
        (node for node in literals if node not in within), key=lambda node: (node.lineno, node.col_offset)
    ):
        text = ast.unparse(node).strip("frb'\"") if isinstance(node, ast.JoinedStr) else node.value
        if node not in docstrings and isinstance(text, str) and SENTENCE.search(text):
            yield re.sub(r"\s*(\\n|\n)\s*", " ", text).strip()


def _text(literal: str | None) -> str:
    return CONTINUATION.sub("", literal or "").replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")


def _option(token: re.Match[str]) -> str:
    flag = "--" + re.sub(r"(?<!^)(?=[A-Z])", "-", token["option"]).lower()
    return f"{flag} " if token["set"] else flag
