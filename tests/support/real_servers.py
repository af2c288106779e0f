"""Well-known servers, on free ports of loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.certificates import Certificate, certificate
from support.programs import free_ports, program, running, wait_for_line
from support.results import rows
from support.run import headgate

_SOURCES: Final = Path(__file__).parent / "servers"
_TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_LARGE_BYTES: Final = 300_000


@dataclass(frozen=True, slots=True)
class RealServer:
    """A server that is running.

    Attributes:
        plain: URL of the port without TLS, without a slash at the end; HTTP/1.1, unless the server distinguishes both.
        secure: URL of the port with TLS, where ALPN decides between HTTP/1.1 and HTTP/2.
        prior: URL of the port without TLS that speaks HTTP/2.
        cacert: The certificate to trust for `secure`.
        process: Its process.
    """

    plain: str
    secure: str
    prior: str
    cacert: Path
    process: "subprocess.Popen[bytes]"

    def flags(self, version: str) -> tuple[str, list[str | Path]]:
        """Returns the URL and the flags for one of `VERSIONS`."""
        known: dict[str, tuple[str, list[str | Path]]] = {
            "HTTP/1.1": (self.secure, ["--cacert", self.cacert, "--http1.1"]),
            "HTTP/1.1 plain": (self.plain, []),
            "HTTP/2": (self.secure, ["--cacert", self.cacert]),
            "HTTP/2 plain": (self.prior, ["--http2-prior-knowledge"]),
        }
        return known[version]


VERSIONS: Final = ("HTTP/1.1 plain", "HTTP/1.1", "HTTP/2", "HTTP/2 plain")


def fetched(
    directory: Path, server: RealServer, version: str, path: str, *flags: str | Path, code: int = 0
) -> list[dict[str, Any]]:
    """Fetches `path` and returns its rows; all of them must have used this version."""
    url, needed = server.flags(version)
    headgate("fetch", f"{url}{path}", "-o", directory / "out", *needed, *flags, check=code)
    found = rows(directory / "out")
    assert {version.removesuffix(" plain")} == {row["http_version"] for row in found}
    return found


@contextmanager
def nginx(directory: Path, *directives: str, gzip: str = "on") -> Iterator[RealServer]:
    """Runs nginx; `directives` are added to its `http` block.

    `/large` has 300,000 bytes, any other path returns its own name.
    """
    made, found = certificate(directory), program("nginx", "nginx-light")
    plain, secure, prior = free_ports(3)
    (directory / "large").write_text("headgate " * (_LARGE_BYTES // 9) + "x" * (_LARGE_BYTES % 9))
    temporary = "\n".join(f"{name}_temp_path {directory / name};" for name in _TEMPORARY)
    more = "\n".join(directives)
    (directory / "nginx.conf").write_text(f"""\
daemon off;
worker_processes 2;
pid {directory / "nginx.pid"};
error_log stderr warn;
{"user root;" if os.geteuid() == 0 else ""}
events {{ worker_connections 8192; }}
http {{
    access_log off;
    default_type text/plain;
    {temporary}
    gzip {gzip};
    gzip_min_length 1;
    gzip_types *;
    ssl_certificate {made.file};
    ssl_certificate_key {made.key};
    {more}
    server {{
        listen 127.0.0.1:{plain} backlog=8192;
        listen 127.0.0.1:{secure} ssl http2 backlog=8192;
        listen 127.0.0.1:{prior} http2 backlog=8192;
        location = /large {{ alias {directory / "large"}; }}
        location = /moved {{ return 301 /there; }}
        location / {{ return 200 "hello $request_uri over $server_protocol\\n"; }}
    }}
}}
""")
    command: list[str | Path] = [found, "-e", "stderr", "-p", directory, "-c", directory / "nginx.conf"]
    with running(command, log=directory / "nginx.log", ports=[plain, secure, prior]) as process:
        yield _server(made, plain, secure, prior, process)


@contextmanager
def node(directory: Path) -> Iterator[RealServer]:
    """Runs Node's `http2`, see `servers/node.mjs`; without TLS, it speaks HTTP/2 only."""
    made = certificate(directory)
    command: list[str | Path] = [program("node", "nodejs"), _SOURCES / "node.mjs", made.file, made.key]
    with _announced(command, made, directory / "node.log") as server:
        yield server


@contextmanager
def go(directory: Path) -> Iterator[RealServer]:
    """Runs Go's `net/http`, see `servers/http2.go`; compiled with nothing but the standard library."""
    made, binary = certificate(directory), directory / "http2"
    # Nothing is fetched; the build cache is that of the user.
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    build: list[str | Path] = [program("go", "golang-go"), "build", "-o", binary, _SOURCES / "http2.go"]
    subprocess.run(build, check=True, capture_output=True, env=environment, cwd=directory, timeout=500)
    with _announced([binary, made.file, made.key], made, directory / "go.log") as server:
        yield server


@contextmanager
def caddy(directory: Path) -> Iterator[RealServer]:
    """Runs Caddy with gzip and zstd."""
    made, found = certificate(directory), program("caddy", "caddy")
    plain, secure = free_ports(2)
    directives = (
        'bind 127.0.0.1\n encode zstd gzip\n respond "hello {uri} {uri} {uri} {uri} {uri} {uri} {uri} {uri} {uri}"'
    )
    (directory / "Caddyfile").write_text(f"""\
{{
    admin off
    auto_https off
    servers {{
        protocols h1 h2 h2c
    }}
}}
http://:{plain} {{
    {directives}
}}
https://:{secure} {{
    tls {made.file} {made.key}
    {directives}
}}
""")
    environment = {
        **os.environ,
        "HOME": str(directory),
        "XDG_DATA_HOME": str(directory),
        "XDG_CONFIG_HOME": str(directory),
    }
    command: list[str | Path] = [found, "run", "--config", directory / "Caddyfile", "--adapter", "caddyfile"]
    with running(command, log=directory / "caddy.log", ports=[plain, secure], environment=environment) as process:
        yield _server(made, plain, secure, plain, process)


@contextmanager
def python_files(directory: Path, protocol: str) -> Iterator[str]:
    """Runs Python's `http.server` with the files in `directory / "files"`; yields its URL without a final slash."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--protocol", protocol]
    log = directory / "python.log"
    with running([*command, "--directory", directory / "files"], log=log) as process:
        line = wait_for_line(process, log, "Serving HTTP on 127.0.0.1 port ")
        yield f"http://127.0.0.1:{line.split()[0]}"


@contextmanager
def _announced(command: list[str | Path], made: Certificate, log: Path) -> Iterator[RealServer]:
    with running(command, log=log) as process:
        secure, plain = wait_for_line(process, log, "listening on ").split()
        yield _server(made, int(plain), int(secure), int(plain), process)


def _server(made: Certificate, plain: int, secure: int, prior: int, process: "subprocess.Popen[bytes]") -> RealServer:
    return RealServer(
        plain=f"http://127.0.0.1:{plain}",
        secure=f"https://localhost:{secure}",
        prior=f"http://127.0.0.1:{prior}",
        cacert=made.file,
        process=process,
    )
