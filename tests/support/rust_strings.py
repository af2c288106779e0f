"""The sentences in the string literals of Rust code."""

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
NOT_THE_ENGINE: Final = {"tests", "testing", "laws", "option_entries"}
"""Modules for tests, and the table of options, which docs/fetch.md has."""


def sentences(code: str) -> Iterator[str]:
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
            depth += bool(token["message"] or token["set"])
            depth += (token["parenthesis"] == "(") - (token["parenthesis"] == ")")
        else:
            parts = [_text(token["text"])]
        text = "".join(parts)
        if not depth and SENTENCE.search(text):
            yield text


def sources(root: Path) -> Iterator[Path]:
    """Yields the files of the engine."""
    for path in sorted(root.glob("crates/*/src/**/*.rs")):
        _, crate, _, *modules = path.relative_to(root).with_suffix("").parts
        if crate != "headgate-testserver" and not NOT_THE_ENGINE & {*modules}:
            yield path


def _text(literal: str | None) -> str:
    return CONTINUATION.sub("", literal or "").replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")


def _option(token: re.Match[str]) -> str:
    flag = "--" + re.sub(r"(?<!^)(?=[A-Z])", "-", token["option"]).lower()
    return f"{flag} " if token["set"] else flag
