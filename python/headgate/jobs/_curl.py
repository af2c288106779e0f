"""A planned request as a command for curl that sends the same: the same line, the same headers and no others, the body.

Quoting is that of a POSIX shell. The value of a secret header is a variable that has to be set, or the shell refuses.
What can't stand between quotes on a terminal (control characters, bytes that are no text) is written with `printf`.
"""

import re
import shlex
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

_OWN_HEADERS: Final = ("user-agent", "accept", "content-type", "expect")
"""What curl would send of its own accord."""

_IMPLIED_BODY: Final = ("POST", "PUT", "PATCH")
"""Methods whose requests tell a length, also that of no body."""

_ENVIRONMENT: Final = "env"
"""What stands for the proxies that the environment names."""

PROXY_VARIABLE: Final = "SECRET_PROXY"
"""Stands for the URL of a proxy that holds credentials."""

_OLDEST_TLS: Final = "1.2"
"""Of curl, too."""

_LONGEST_WORD: Final = 100_000
"""In bytes; Linux takes words of up to 128 KiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connecting:
    """What is asked of a connection, as far as curl has an option for it."""

    timeout_s: float
    connect_timeout_s: float
    cacert: str | None = None
    insecure: bool = False
    cert: str | None = None
    key: str | None = None
    tls_min: str = "1.2"
    sni: str | None = None
    http2_prior_knowledge: bool = False
    proxies: tuple[str, ...] = ()
    resolve: tuple[str, ...] = ()
    ipv4: bool = False
    ipv6: bool = False
    local_addresses: tuple[str, ...] = ()
    interface: str | None = None


class File(Protocol):
    """A file whose contents are sent."""

    @property
    def path(self) -> str:
        """Where it is."""
        ...


class Piece(Protocol):
    """A piece of a body, one of these."""

    @property
    def text(self) -> str | None:
        """If it is text."""
        ...

    @property
    def base64(self) -> str | None:
        """If it is none."""
        ...

    @property
    def file(self) -> File | None:
        """If it is in a file."""
        ...


class Body(Protocol):
    """What follows the headers."""

    @property
    def text(self) -> str | None:
        """If it is text."""
        ...

    @property
    def base64(self) -> str | None:
        """If it is not."""
        ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """If some of it is in files."""
        ...


class Request(Protocol):
    """What is known of a request."""

    @property
    def line(self) -> str:
        """The request line."""
        ...

    @property
    def target(self) -> str:
        """Its URL."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """In order."""
        ...

    @property
    def secret(self) -> tuple[str, ...]:
        """Names of headers whose values are left out."""
        ...

    @property
    def body(self) -> Body | None:
        """What follows them."""
        ...


def command(request: Request, connecting: Connecting) -> str:
    """The command, over several lines."""
    method = request.line.partition(" ")[0]
    if request.body is not None and request.body.pieces:
        pipe, data = _pieces(request.body.pieces)
    else:
        body = _body(request.body)
        pipe, data = _data(body, is_told=bool(body) or method in _IMPLIED_BODY)
    version = "--http2-prior-knowledge" if connecting.http2_prior_knowledge else "--http1.1"
    lines = [
        f"{pipe}curl -q {version} --path-as-is --globoff --compressed",
        *_transport(connecting),
        *_tls(connecting),
        *_addresses(connecting),
        *_method(method, has_data=bool(data)),
        *(f"-H {header}" for header in _headers(request)),
        *data,
        *_target(request.target, connecting.sni),
    ]
    return " \\\n  ".join(lines)


def variables(request: Request, connecting: Connecting) -> list[str]:
    """The variables that its command needs."""
    of_proxy = [PROXY_VARIABLE] if any("@" in proxy for proxy in connecting.proxies[:1]) else []
    return [*of_proxy, *(name for _, name in _secrets(request))]


def _body(body: Body | Piece | None) -> bytes:
    if body is None:
        return b""
    return b64decode(body.base64) if body.base64 is not None else (body.text or "").encode()


def _pieces(pieces: Sequence[Piece]) -> tuple[str, list[str]]:
    """As `_data`, where some of the body is in files. curl has no option for a mixture that sends these very bytes."""
    if len(pieces) == 1 and pieces[0].file is not None:
        return "", [f"--data-binary @{_path(pieces[0].file.path)}"]
    printed = [f"cat {_path(piece.file.path)}" if piece.file is not None else _print(_body(piece)) for piece in pieces]
    return f"{{ {'; '.join(printed)}; }} | ", ["--data-binary @-"]


def _path(path: str) -> str:
    """A file as an argument: `-` alone would be standard input, and what begins with it an option."""
    return _word(path if path.startswith("/") else f"./{path}")


def _transport(connecting: Connecting) -> Iterator[str]:
    proxy = f"{_proxy(connecting.proxies)} ".lstrip()
    yield f"{proxy}--max-time {connecting.timeout_s:g} --connect-timeout {connecting.connect_timeout_s:g}"


def _proxy(proxies: tuple[str, ...]) -> str:
    """The first one; curl has one."""
    if not proxies:
        return "--noproxy '*'"
    if proxies[0] == _ENVIRONMENT:
        return ""  # as curl does anyway
    if "@" in proxies[0]:
        return f'-x "${{{PROXY_VARIABLE}:?}}"'
    scheme, _, rest = proxies[0].rpartition("://")
    # Where there is no port, curl takes 1080.
    ports = {"": 80, "http": 80, "https": 443}
    has_port = rest.rstrip("/").rpartition("]")[2].rpartition(":")[1]
    port = "" if has_port else f":{ports.get(scheme.lower(), 1080)}"
    return f"-x {shlex.quote(proxies[0].rstrip('/') + port)}"


def _tls(connecting: Connecting) -> Iterator[str]:
    if connecting.insecure:
        yield "--insecure"
    elif connecting.cacert is not None:
        yield f"--cacert {shlex.quote(connecting.cacert)}"
    if connecting.cert is not None:
        # What comes after a colon is a password to curl.
        escaped = connecting.cert.replace("\\", "\\\\").replace(":", "\\:")
        yield f"--cert {shlex.quote(escaped)}"
    if connecting.key is not None:
        yield f"--key {shlex.quote(connecting.key)}"
    if connecting.tls_min != _OLDEST_TLS:
        yield f"--tlsv{connecting.tls_min}"


def _addresses(connecting: Connecting) -> Iterator[str]:
    yield from (f"--resolve {shlex.quote(entry)}" for entry in connecting.resolve)
    if connecting.ipv4:
        yield "-4"
    if connecting.ipv6:
        yield "-6"
    # curl has one of either.
    for local in (connecting.interface, *connecting.local_addresses):
        if local is not None:
            yield f"--interface {shlex.quote(local)}"
            return


def _target(target: str, sni: str | None) -> Iterator[str]:
    """The URL; curl takes the name for TLS from it, and is told where to connect for that."""
    parts = urlsplit(target)
    if sni is None or parts.scheme != "https":
        yield shlex.quote(target)
        return
    port = f":{parts.port or 443}"
    host = parts.netloc.rpartition("@")[2].removesuffix(port)
    yield f"--connect-to {shlex.quote(f'{sni}{port}:{host}{port}')}"
    yield shlex.quote(parts._replace(netloc=sni if parts.port is None else f"{sni}{port}").geturl())


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
    return f"{_print(body)} | ", ["--data-binary @-"]


def _print(data: bytes) -> str:
    """What writes these bytes."""
    text = _as_text(data)
    return f"printf %b {_octal(data)}" if text is None else f"printf %s {shlex.quote(text)}"


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
