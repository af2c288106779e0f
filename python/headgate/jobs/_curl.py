"""Writes a planned request as a command for curl that sends the same request line, headers and body.

Quoting is that of a POSIX shell. The value of a secret header is a variable; if it is not set, the shell reports that.
Control characters and bytes that are not text are written with `printf`, because a terminal can't show them in quotes.
"""

import re
import shlex
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headgate.jobs._planned import Body, BodyPiece, PlannedRequest

_OWN_HEADERS: Final = ("user-agent", "accept", "content-type", "expect")
"""Headers that curl adds by default."""

_IMPLIED_BODY: Final = ("POST", "PUT", "PATCH")
"""Methods whose requests have a content-length even without a body."""

_ENVIRONMENT: Final = "env"
"""Stands for the proxies in environment variables."""

PROXY_VARIABLE: Final = "SECRET_PROXY"
"""The variable for the URL of a proxy with credentials."""

_DEFAULT_TLS_MIN: Final = "1.2"
"""The default of curl, too."""

_MAX_WORD_BYTES: Final = 100_000
"""Linux accepts words of up to 128 KiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connecting:
    """The options of connections that curl has, too, with the same names as those of a job."""

    timeout: float
    connect_timeout: float
    cacert: str | None = None
    insecure: bool = False
    cert: str | None = None
    key: str | None = None
    tls_min: str = "1.2"
    tls_server_name: str | None = None
    http2_prior_knowledge: bool = False
    proxy: tuple[str, ...] = ()
    resolve: tuple[str, ...] = ()
    ipv4: bool = False
    ipv6: bool = False
    local_address: tuple[str, ...] = ()
    interface: str | None = None


def command(request: PlannedRequest, connecting: Connecting) -> str:
    """Returns the command, over several lines."""
    method = request.line.partition(" ")[0]
    if request.body is not None and request.body.pieces:
        pipe, data = _pieces(request.body.pieces)
    else:
        body = _body(request.body)
        pipe, data = _data(body, has_length=bool(body) or method in _IMPLIED_BODY)
    version = "--http2-prior-knowledge" if connecting.http2_prior_knowledge else "--http1.1"
    lines = [
        f"{pipe}curl -q {version} --path-as-is --globoff --compressed",
        *_transport(connecting),
        *_tls(connecting),
        *_addresses(connecting),
        *_method(method, has_data=bool(data)),
        *(f"-H {header}" for header in _headers(request)),
        *data,
        *_target(request.target, connecting.tls_server_name),
    ]
    return " \\\n  ".join(lines)


def variables(request: PlannedRequest, connecting: Connecting) -> list[str]:
    """Returns the names of the variables that the command needs."""
    of_proxy = [PROXY_VARIABLE] if any("@" in proxy for proxy in connecting.proxy[:1]) else []
    return [*of_proxy, *(name for _, name in _secrets(request))]


def _body(body: Body | BodyPiece | None) -> bytes:
    if body is None:
        return b""
    return b64decode(body.base64) if body.base64 is not None else (body.text or "").encode()


def _pieces(pieces: Sequence[BodyPiece]) -> tuple[str, list[str]]:
    """Returns what `_data` returns, for a body with files. curl has no option that sends exactly such a mixture."""
    if len(pieces) == 1 and pieces[0].file is not None:
        return "", [f"--data-binary @{_path(pieces[0].file.path)}"]
    printed = [f"cat {_path(piece.file.path)}" if piece.file is not None else _print(_body(piece)) for piece in pieces]
    return f"{{ {'; '.join(printed)}; }} | ", ["--data-binary @-"]


def _path(path: str) -> str:
    """Returns a file as an argument: `-` alone would be standard input, and a path that begins with it an option."""
    return _word(path if path.startswith("/") else f"./{path}")


def _transport(connecting: Connecting) -> Iterator[str]:
    proxy = f"{_proxy(connecting.proxy)} ".lstrip()
    yield f"{proxy}--max-time {connecting.timeout:g} --connect-timeout {connecting.connect_timeout:g}"


def _proxy(proxies: tuple[str, ...]) -> str:
    """Returns the option for the first proxy, because curl can use only one."""
    if not proxies:
        return "--noproxy '*'"
    if proxies[0] == _ENVIRONMENT:
        return ""  # the default of curl
    if "@" in proxies[0]:
        return f'-x "${{{PROXY_VARIABLE}:?}}"'
    scheme, _, rest = proxies[0].rpartition("://")
    # Without a port, curl uses 1080.
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
        # curl takes the text after a colon as a password.
        escaped = connecting.cert.replace("\\", "\\\\").replace(":", "\\:")
        yield f"--cert {shlex.quote(escaped)}"
    if connecting.key is not None:
        yield f"--key {shlex.quote(connecting.key)}"
    if connecting.tls_min != _DEFAULT_TLS_MIN:
        yield f"--tlsv{connecting.tls_min}"


def _addresses(connecting: Connecting) -> Iterator[str]:
    yield from (f"--resolve {shlex.quote(entry)}" for entry in connecting.resolve)
    if connecting.ipv4:
        yield "-4"
    if connecting.ipv6:
        yield "-6"
    # curl can use only one of them.
    for local in (connecting.interface, *connecting.local_address):
        if local is not None:
            yield f"--interface {shlex.quote(local)}"
            return


def _target(target: str, sni: str | None) -> Iterator[str]:
    """Yields the URL. With `sni`, the URL has that hostname, and `--connect-to` has the one of the request."""
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
        yield "--head"  # with -X, curl would wait for a body
    elif method != ("POST" if has_data else "GET"):
        yield f"-X {shlex.quote(method)}"


def _headers(request: PlannedRequest) -> Iterator[str]:
    secrets = _secrets(request)
    for name, value in request.headers:
        lower = name.lower()
        if lower == "content-length":
            continue  # curl computes it
        if name in request.secret:
            _, variable = secrets.pop(0)
            yield f'"{name}: ${{{variable}:?}}"'
        else:
            yield _word(f"{name}: {value}" if value else f"{name};")
    given = {name.lower() for name, _ in request.headers}
    yield from (shlex.quote(f"{name}:") for name in _OWN_HEADERS if name not in given)


def _secrets(request: PlannedRequest) -> list[tuple[str, str]]:
    """Returns the headers whose values are left out, each with its variable."""
    found: list[tuple[str, str]] = []
    for name in request.secret:
        variable = "SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        number = sum(other.lower() == name.lower() for other, _ in found) + 1
        found.append((name, variable if number == 1 else f"{variable}_{number}"))
    return found


def _data(body: bytes, *, has_length: bool) -> tuple[str, list[str]]:
    """Returns the command that is piped into curl, if there is one, and the option for the body."""
    if not has_length:
        return "", []
    text = _as_text(body)
    # A text that begins with @ would be the name of a file.
    if text is not None and not text.startswith("@") and len(body) <= _MAX_WORD_BYTES:
        return "", [f"--data-binary {shlex.quote(text)}"]
    return f"{_print(body)} | ", ["--data-binary @-"]


def _print(data: bytes) -> str:
    """Returns a command that writes these bytes."""
    text = _as_text(data)
    return f"printf %b {_octal(data)}" if text is None else f"printf %s {shlex.quote(text)}"


def _as_text(body: bytes) -> str | None:
    """Returns the bytes as text, if a terminal can show all of it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate({10: None, 9: None}).isprintable() else None


def _word(text: str) -> str:
    return shlex.quote(text) if text.isprintable() else f'"$(printf %b {_octal(text.encode())})"'


def _octal(data: bytes) -> str:
    """Returns the bytes for `%b` of `printf` (POSIX), with octal numbers for bytes that are not printable ASCII."""
    plain = {byte: chr(byte) for byte in range(0x20, 0x7F) if byte not in b"\\'"}
    return "'" + "".join(plain.get(byte) or f"\\0{byte:03o}" for byte in data) + "'"
