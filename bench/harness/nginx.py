"""nginx: one process on one core that responds at once; some paths have other responses."""

import gzip
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import processes, servers
from harness.servers import BODY, Counted, ServerError

IN_PIECES: Final = "/in-pieces"
"""The body is sent a millisecond after the headers, so that a fast client reads the headers alone."""
ENCODED: Final = "/encoded"
"""The body is `ENCODED_BODY`, which is JSON in gzip."""
CLOSING: Final = "/closing"
"""The server closes the connection after the response."""
ENCODED_BODY: Final = gzip.compress(
    json.dumps(
        [{"id": number, "name": f"item {number}", "price": number * 7919 % 997} for number in range(100)]
    ).encode(),
    mtime=0,
)
JSON: Final = "/json"
"""The body is `JSON_BODY`."""
JSON_BODY: Final = json.dumps(
    {
        "id": "chatcmpl-7f3a",
        "object": "chat.completion",
        "created": 1_778_751_000,
        "model": "example-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "All happy families are alike. " * 40},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 57, "completion_tokens": 280, "total_tokens": 337},
    }
).encode()
_READY_S: Final = 10.0
_HERE: Final = "127.0.0.1"

# One process, which is easy to pin, to measure and to stop; it never closes a connection by itself. `postpone_output 0`
# writes the headers without waiting for the body, and `limit_rate` waits a millisecond after them. Without `sendfile` a
# file is sent in one write with its headers.
_FRAME: Final = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 18000; multi_accept on; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    default_type text/plain;
{http}
}}
"""
_CONFIG: Final = """\
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    sendfile off;
    open_file_cache max=1 inactive=1h;
    open_file_cache_valid 1h;
    server {{
{listen}
        location / {{ return 200 "{body}"; }}
        location {in_pieces}/ {{ postpone_output 0; limit_rate 100k; return 200 "{body}"; }}
        location {encoded}/ {{
            root {directory};
            types {{ application/json gz; }}
            add_header Content-Encoding gzip;
            try_files /body.gz =404;
        }}
        location {json}/ {{
            root {directory};
            types {{ application/json json; }}
            try_files /completion.json =404;
        }}
        location {closing}/ {{ keepalive_timeout 0; return 200 "{body}"; }}
        location = /status {{ stub_status; }}
    }}
"""
_TLS: Final = """\
        listen {address}:{port} ssl backlog=65535;
        ssl_certificate {directory}/certificate.pem;
        ssl_certificate_key {directory}/key.pem;"""


@dataclass(slots=True)
class Nginx:
    """A running nginx.

    Attributes:
        url: The URL, without a slash at the end.
        tls_url: The URL for TLS, with a self-signed certificate; empty without TLS.
        port: The port of `url`.
    """

    url: str
    tls_url: str
    port: int
    pid: int
    own_requests: int = 0

    def counted(self) -> Counted:
        """Returns the counts of `stub_status`, without its own requests and connection."""
        words = servers.get(f"{self.url}/status").split()
        self.own_requests += 1
        accepted, requests = int(words[7]), int(words[9])
        return Counted(requests - self.own_requests, accepted - self.own_requests, int(words[2]) - 1)


def program() -> str:
    """Returns the path of nginx.

    Raises:
        ServerError: It is not installed.
    """
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise ServerError("nginx is what the clients are measured against, and there is none; run: apt install nginx")
    return found


@contextmanager
def nginx(core: int, *, addresses: Sequence[str] = (), everywhere: bool = False, tls: bool = False) -> Iterator[Nginx]:
    """Runs nginx on one core; other paths than those above respond with `BODY` at once.

    Args:
        core: The core.
        addresses: Further addresses at which it listens, with the same port.
        everywhere: Whether it listens at every address of the machine.
        tls: Whether it listens at another port for TLS.

    Raises:
        ServerError: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-nginx-") as directory:
        port, tls_port = _free_ports()
        places = ("*",) if everywhere else (_HERE, *addresses)
        listen = [f"        listen {address}:{port} backlog=65535;" for address in places]
        if tls:
            make_certificate(Path(directory))
            listen.append(_TLS.format(address=_HERE, port=tls_port, directory=directory))
        Path(directory, "body.gz").write_bytes(ENCODED_BODY)
        Path(directory, "completion.json").write_bytes(JSON_BODY)
        http = _CONFIG.format(
            directory=directory,
            listen="\n".join(listen),
            body=BODY.decode(),
            in_pieces=IN_PIECES,
            encoded=ENCODED,
            json=JSON,
            closing=CLOSING,
        )
        with configured(framed(http, Path(directory)), Path(directory), port, core) as pid:
            tls_url = f"https://{_HERE}:{tls_port}" if tls else ""
            yield Nginx(f"http://{_HERE}:{port}", tls_url, port, pid)


def framed(http: str, directory: Path) -> str:
    """Returns a configuration with this `http` block: one process, which writes nothing outside the directory."""
    return _FRAME.format(directory=directory, http=http)


@contextmanager
def configured(config: str, directory: Path, port: int, core: int) -> Iterator[int]:
    """Runs nginx with this configuration on one core, listening at this port; yields its process ID.

    Raises:
        ServerError: It does not start.
    """
    path, log = directory / "nginx.conf", directory / "errors"
    path.write_text(config)
    command = [program(), "-p", str(directory), "-c", str(path), "-e", str(log)]
    with log.open("w") as errors, processes.pinned(core):
        process = subprocess.Popen(command, stderr=errors)
    with servers.terminated_at_end(process):
        servers.wait_for_port(port, process, log, name="nginx, which needs its stub_status module,", ready_s=_READY_S)
        yield process.pid


def free_port() -> int:
    """Returns a free port."""
    return _free_ports()[0]


def _free_ports() -> tuple[int, int]:
    with socket.create_server((_HERE, 0)) as one, socket.create_server((_HERE, 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def make_certificate(directory: Path) -> None:
    """Writes a key and a self-signed certificate.

    Raises:
        ServerError: openssl is not installed.
    """
    if (openssl := shutil.which("openssl")) is None:
        raise ServerError("openssl makes the certificate of the server, and there is none; run: apt install openssl")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={_HERE}"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem")]
    subprocess.run([openssl, "req", "-x509", "-days", "1", *curve, *files], capture_output=True, check=True)
