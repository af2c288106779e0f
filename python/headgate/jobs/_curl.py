"""A planned request as a command for curl that sends the same: the same line, the same headers and no others, the body.

Quoting is that of a POSIX shell. The value of a secret header is a variable that has to be set, or the shell refuses.
What can't stand between quotes on a terminal (control characters, bytes that are no text) is written with `printf`.
"""

import re
import shlex
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

_OWN_HEADERS: Final = ("user-agent", "accept", "content-type", "expect")
"""What curl would send of its own accord."""

_IMPLIED_BODY: Final = ("POST", "PUT", "PATCH")
"""Methods whose requests tell a length, also that of no body."""

_LONGEST_WORD: Final = 100_000
"""In bytes; Linux takes words of up to 128 KiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connecting:
    """What is asked of a connection, as far as curl has an option for it."""

    timeout_s: float
    connect_timeout_s: float
    cacert: str | None
    insecure: bool


class Body(Protocol):
    """What follows the headers."""

    @property
    def text(self) -> str | None:
        """If it is text."""

    @property
    def base64(self) -> str | None:
        """If it is not."""


class Request(Protocol):
    """What is known of a request."""

    @property
    def line(self) -> str:
        """The request line."""

    @property
    def target(self) -> str:
        """Its URL."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """In order."""

    @property
    def secret(self) -> tuple[str, ...]:
        """Names of headers whose values are left out."""

    @property
    def body(self) -> Body | None:
        """What follows them."""


def command(request: Request, connecting: Connecting) -> str:
    """The command, over several lines."""
    body = _body(request.body)
    method = request.line.partition(" ")[0]
    pipe, data = _data(body, is_told=bool(body) or method in _IMPLIED_BODY)
    lines = [
        f"{pipe}curl -q --http1.1 --path-as-is --globoff --compressed",
        *_transport(connecting),
        *_method(method, has_data=bool(data)),
        *(f"-H {header}" for header in _headers(request)),
        *data,
        shlex.quote(request.target),
    ]
    return " \\\n  ".join(lines)


def variables(request: Request) -> list[str]:
    """The variables that its command needs."""
    return [name for _, name in _secrets(request)]


def _body(body: Body | None) -> bytes:
    if body is None:
        return b""
    return b64decode(body.base64) if body.base64 is not None else (body.text or "").encode()


def _transport(connecting: Connecting) -> Iterator[str]:
    # headgate knows no proxies.
    yield f"--noproxy '*' --max-time {connecting.timeout_s:g} --connect-timeout {connecting.connect_timeout_s:g}"
    if connecting.insecure:
        yield "--insecure"
    elif connecting.cacert is not None:
        yield f"--cacert {shlex.quote(connecting.cacert)}"


def _method(method: str, *, has_data: bool) -> Iterator[str]:
    if method == "HEAD" and not has_data:
        yield "--head"  # with -X it would wait for a body
    elif method != ("POST" if has_data else "GET"):
        yield f"-X {shlex.quote(method)}"


def _headers(request: Request) -> Iterator[str]:
    secrets = _secrets(request)
    for name, value in request.headers:
        lower = name.lower()
        if lower == "content-length":
            continue  # curl counts by itself
        if name in request.secret:
            _, variable = secrets.pop(0)
            yield f'"{name}: ${{{variable}:?}}"'
        else:
            yield _word(f"{name}: {value}" if value else f"{name};")
    given = {name.lower() for name, _ in request.headers}
    yield from (shlex.quote(f"{name}:") for name in _OWN_HEADERS if name not in given)


def _secrets(request: Request) -> list[tuple[str, str]]:
    """The headers whose values are left out, each with its variable."""
    found: list[tuple[str, str]] = []
    for name in request.secret:
        variable = "SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        number = sum(other.lower() == name.lower() for other, _ in found) + 1
        found.append((name, variable if number == 1 else f"{variable}_{number}"))
    return found


def _data(body: bytes, *, is_told: bool) -> tuple[str, list[str]]:
    """What stands before curl, and its option for the body."""
    if not is_told:
        return "", []
    text = _as_text(body)
    # What begins with @ would be the name of a file.
    if text is not None and not text.startswith("@") and len(body) <= _LONGEST_WORD:
        return "", [f"--data-binary {shlex.quote(text)}"]
    printed = f"%b {_octal(body)}" if text is None else f"%s {shlex.quote(text)}"
    return f"printf {printed} | ", ["--data-binary @-"]


def _as_text(body: bytes) -> str | None:
    """The text, if all of it can be shown."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate({10: None, 9: None}).isprintable() else None


def _word(text: str) -> str:
    return shlex.quote(text) if text.isprintable() else f'"$(printf %b {_octal(text.encode())})"'


def _octal(data: bytes) -> str:
    """For `%b` of `printf` (POSIX): each byte that is no plain letter by its number."""
    plain = {byte: chr(byte) for byte in range(0x20, 0x7F) if byte not in b"\\'"}
    return "'" + "".join(plain.get(byte) or f"\\0{byte:03o}" for byte in data) + "'"
