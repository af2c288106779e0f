"""Wherever redirects lead, only the origin that headers were meant for gets them."""

import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from support.certificates import certificate
from support.results import rows
from support.run import headgate

CHAINS: Final = 300
LONGEST: Final = 6
STATUSES: Final = (301, 302, 303, 307, 308)
HOSTS: Final = ("127.0.0.1", "localhost", "127.0.0.2")
# Header names as they are sent, and in lower case for comparison.
SECRETS: Final = {
    "Authorization": "Bearer secret",
    "COOKIE": "session=secret",
    "proxy-authorization": "Basic secret",
    "X-Api-Key": "secret",
    "x-API-token": "secret",
    # No option declares it as a secret.
    "X-Trace": "secret",
}
HARMLESS: Final = {"Accept-Language": "de", "If-None-Match": '"etag"', "Accept": "text/html"}


class Seen:
    """The headers of requests, by redirect chain and step."""

    def __init__(self) -> None:
        self.chains: list[list[str]] = []
        self.statuses: list[list[int]] = []
        self.requests: dict[tuple[int, int], list[tuple[str, str]]] = {}
        self.origins: dict[tuple[int, int], str] = {}


@contextmanager
def origins(directory: Path, seen: Seen) -> Iterator[list[str]]:
    """Runs servers that redirect from step to step; yields their URLs, for each host two with TLS and two without."""
    made = certificate(directory)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # the name that http.server looks for
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            chain, step = (int(part) for part in self.path.strip("/").split("/"))
            scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
            seen.requests[chain, step] = list(self.headers.items())
            seen.origins[chain, step] = f"{scheme}://{self.headers['Host']}"
            following = seen.chains[chain][step + 1 : step + 2]
            self.send_response(seen.statuses[chain][step] if following else 200)
            for origin in following:
                self.send_header("Location", f"{origin}/{chain}/{step + 1}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - as above

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with ExitStack() as stack:
        urls = []
        for scheme in ("http", "http", "https", "https"):
            # The servers listen on all addresses of 127.0.0.0/8.
            server = stack.enter_context(Server(("0.0.0.0", 0), Handler))  # noqa: S104
            if scheme == "https":
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(made.file, made.key)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=[0.01])
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            urls += [f"{scheme}://{host}:{server.server_port}" for host in HOSTS]
        yield urls


@pytest.mark.parametrize("seed", range(2))
def test_urllib3_cve_2018_20060_no_header_is_seen_by_another_origin_nor_after_one(seed: int, tmp_path: Path) -> None:
    chosen, seen = random.Random(seed), Seen()  # noqa: S311 - a seed makes it reproducible
    with origins(tmp_path, seen) as urls:
        for _ in range(CHAINS):
            # The same origin comes often, so that some chains have it twice in a row.
            near = chosen.sample(urls, chosen.randint(1, 3))
            seen.chains.append(chosen.choices(near, k=chosen.randint(1, LONGEST)))
            seen.statuses.append(chosen.choices(STATUSES, k=LONGEST))
        methods = chosen.choices(["GET", "POST"], k=CHAINS)
        lines = [f"{chain[0]}/{index}/0,{methods[index]}\n" for index, chain in enumerate(seen.chains)]
        (tmp_path / "rows.csv").write_text("url,method\n" + "".join(lines))
        headers = [f"{name}: {value}" for name, value in {**SECRETS, **HARMLESS}.items()]
        # The option is given twice: all of these headers are credentials.
        headers.append("X-Api-Key: another secret")
        flags = [flag for header in headers for flag in ("-H", header)]
        flags += ["--method-column", "method", "--credentials-for", "*"]
        flags += ["--cacert", str(tmp_path / "certificate.pem"), "-c", "20", "--retry-non-idempotent"]
        headgate("fetch", tmp_path / "rows.csv", "-o", tmp_path / "out", *flags, check=0)

    for index, (chain, row) in enumerate(zip(seen.chains, rows(tmp_path / "out"), strict=True)):
        last = f"{chain[-1]}/{index}/{len(chain) - 1}"
        assert (None, 200, last if len(chain) > 1 else None) == (row["error"], row["status"], row["final_url"])
        for step, origin in enumerate(chain):
            assert origin == seen.origins[index, step]
            sent = sorted((name.lower(), value) for name, value in seen.requests[index, step])
            is_home = set(chain[: step + 1]) == {chain[0]}
            expected = [(name.lower(), value) for name, value in SECRETS.items()] + [("x-api-key", "another secret")]
            secrets = [pair for pair in sent if pair[0] in {name.lower() for name in SECRETS}]
            assert (sorted(expected) if is_home else []) == secrets, (chain, step)
            assert {(name.lower(), value) for name, value in HARMLESS.items()} <= set(sent)
