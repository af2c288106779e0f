"""Every fault of a server becomes one outcome of the right kind, within the timeout."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from support.results import rows
from support.run import get, headgate, serving

TIMEOUT_S = 3.0
MAX_BODY_BYTES = 1024 * 1024


class End(NamedTuple):
    """The outcome of a row.

    Attributes:
        error: `None`: it succeeds. One of several, with `|` between them.
        attempts: With one retry; without any, it is one attempt.
        waits: Each attempt costs the timeout.
    """

    error: str | None
    attempts: int = 1
    waits: bool = False


SUCCEEDED: Final = End(None)
CLOSED: Final = End("connection_closed", attempts=2)
RAPID_RESET: Final = "h2-rapid-reset"
TIMEOUT: Final = End("timeout", attempts=2, waits=True)
PROTOCOL: Final = End("protocol")
TOO_LARGE: Final = End("body_too_large")
DECODE: Final = End("decode")
LOOP: Final = End("redirect_loop")
# A flood of bytes reaches one of several bounds first.
FLOOD: Final = End("protocol|body_too_large")

# The server's own list of faults, and the outcome of each over HTTP/1.1 and over HTTP/2; None: HTTP has no such fault.
FAULTS: Final[dict[str, tuple[End | None, End | None]]] = {
    # connection
    "refuse": (CLOSED, CLOSED),
    "reset-before-headers": (CLOSED, CLOSED),
    "close-mid-headers": (CLOSED, None),
    "reset-after-headers": (CLOSED, CLOSED),
    "reset-mid-body": (CLOSED, CLOSED),
    "hang-before-headers": (TIMEOUT, TIMEOUT),
    "hang-mid-headers": (TIMEOUT, None),
    "hang-mid-body": (TIMEOUT, TIMEOUT),
    "drip": (TIMEOUT, TIMEOUT),
    "drip-headers": (TIMEOUT, None),
    "endless-body": (TOO_LARGE, None),
    "endless-body-close-delimited": (TOO_LARGE, FLOOD),
    "close-after-response": (SUCCEEDED, CLOSED),
    "close-idle": (SUCCEEDED, SUCCEEDED),
    "reset-idle": (SUCCEEDED, SUCCEEDED),
    "cut-mid-stream": (SUCCEEDED, CLOSED),
    "extra-bytes": (SUCCEEDED, PROTOCOL),
    "extra-response": (SUCCEEDED, PROTOCOL),
    # framing
    "content-length-too-long": (CLOSED, CLOSED),
    "content-length-too-short": (SUCCEEDED, PROTOCOL),
    "conflicting-content-lengths": (PROTOCOL, PROTOCOL),
    "repeated-content-length": (SUCCEEDED, SUCCEEDED),
    "negative-content-length": (PROTOCOL, PROTOCOL),
    "content-length-no-number": (PROTOCOL, PROTOCOL),
    "content-length-overflow": (PROTOCOL, PROTOCOL),
    "content-length-huge": (TOO_LARGE, TOO_LARGE),
    "content-length-and-chunked": (SUCCEEDED, None),
    "unknown-transfer-encoding": (PROTOCOL, None),
    "bad-chunk-size": (PROTOCOL, None),
    "negative-chunk-size": (PROTOCOL, None),
    "chunk-size-overflow": (PROTOCOL, None),
    "chunk-too-long": (PROTOCOL, None),
    "truncated-chunk": (CLOSED, None),
    "truncated-chunks": (CLOSED, None),
    "endless-chunk-extension": (PROTOCOL, None),
    "endless-trailers": (PROTOCOL, None),
    "extensions-and-trailers": (SUCCEEDED, None),
    "body-after-head": (SUCCEEDED, PROTOCOL),
    "no-content-with-body": (SUCCEEDED, SUCCEEDED),
    "not-modified": (SUCCEEDED, SUCCEEDED),
    "not-modified-with-body": (SUCCEEDED, SUCCEEDED),
    # head
    "garbage": (PROTOCOL, None),
    "http-09": (PROTOCOL, None),
    "bad-status": (PROTOCOL, None),
    "long-status": (PROTOCOL, None),
    "no-reason": (SUCCEEDED, SUCCEEDED),
    "bad-version": (PROTOCOL, None),
    "unsolicited-upgrade": (PROTOCOL, None),
    "many-headers": (PROTOCOL, PROTOCOL),
    "long-header": (PROTOCOL, PROTOCOL),
    "endless-headers": (PROTOCOL, None),
    "endless-header": (PROTOCOL, None),
    "many-interim": (PROTOCOL, None),
    "endless-interim": (PROTOCOL, None),
    "folded-header": (SUCCEEDED, None),
    "bare-line-feeds": (SUCCEEDED, CLOSED),
    "bare-carriage-return": (PROTOCOL, None),
    "nul-in-header": (SUCCEEDED, None),
    "latin-1-header": (SUCCEEDED, SUCCEEDED),
    "space-before-colon": (PROTOCOL, None),
    "no-colon": (SUCCEEDED, None),
    # content
    "truncated-gzip": (DECODE, DECODE),
    "corrupt-gzip": (DECODE, DECODE),
    "gzip-bad-checksum": (DECODE, DECODE),
    "gzip-trailing-garbage": (SUCCEEDED, SUCCEEDED),
    "not-gzip": (DECODE, DECODE),
    "empty-gzip": (SUCCEEDED, SUCCEEDED),
    "gzip-twice": (SUCCEEDED, SUCCEEDED),
    "raw-deflate": (SUCCEEDED, SUCCEEDED),
    "unknown-encoding": (SUCCEEDED, SUCCEEDED),
    "gzip-bomb": (TOO_LARGE, TOO_LARGE),
    "brotli-bomb": (TOO_LARGE, TOO_LARGE),
    "zstd-bomb": (TOO_LARGE, TOO_LARGE),
    "brotli-window": (TOO_LARGE, TOO_LARGE),
    "zstd-windows": (TOO_LARGE, TOO_LARGE),
    "deflated-nothing": (TOO_LARGE, TOO_LARGE),
    # redirects
    "redirect-loop": (LOOP, LOOP),
    "redirect-without-location": (SUCCEEDED, SUCCEEDED),
    "redirect-to-nothing": (SUCCEEDED, SUCCEEDED),
    "redirect-broken": (PROTOCOL, PROTOCOL),
    "redirect-other-scheme": (PROTOCOL, PROTOCOL),
    "redirect-two-locations": (PROTOCOL, PROTOCOL),
    "redirect-coded-body": (SUCCEEDED, SUCCEEDED),
    "redirect-corrupt-body": (SUCCEEDED, SUCCEEDED),
    "redirect-hang-mid-body": (SUCCEEDED, SUCCEEDED),
    "redirect-drip": (SUCCEEDED, SUCCEEDED),
    # streams of HTTP/2
    "h2-refused-stream": (None, CLOSED),
    # Over HTTP/1.1, the server says that it has this fault for HTTP/2 only.
    "h2-http-1-1-required": (None, None),
    "h2-reset-no-error": (None, CLOSED),
    "h2-reset-protocol-error": (None, CLOSED),
    "h2-reset-internal-error": (None, CLOSED),
    "h2-reset-flow-control-error": (None, CLOSED),
    "h2-reset-stream-closed": (None, CLOSED),
    "h2-reset-refused-stream": (None, CLOSED),
    "h2-reset-cancel": (None, CLOSED),
    "h2-reset-enhance-your-calm": (None, CLOSED),
    "h2-content-length-too-long": (None, PROTOCOL),
    "h2-content-length-too-short": (None, PROTOCOL),
    "h2-trailers": (None, SUCCEEDED),
    "h2-interim": (None, SUCCEEDED),
    "h2-goaway-graceful": (None, SUCCEEDED),
    # connections of HTTP/2
    "h2-goaway": (None, CLOSED),
    "h2-goaway-lower": (None, CLOSED),
    "h2-goaway-taken": (None, CLOSED),
    "h2-goaway-calm": (None, CLOSED),
    "h2-goaway-mid-body": (None, SUCCEEDED),
    "h2-goaway-hang": (None, TIMEOUT),
    "h2-silent": (None, TIMEOUT),
    "h2-silent-mid-body": (None, TIMEOUT),
    "h2-close-mid-body": (None, CLOSED),
    "h2-no-more-streams": (None, SUCCEEDED),
    RAPID_RESET: (None, PROTOCOL),
    "h2-continuation-flood": (None, PROTOCOL),
    "h2-empty-continuation-flood": (None, PROTOCOL),
    "h2-settings-flood": (None, PROTOCOL),
    "h2-ping-flood": (None, PROTOCOL),
    "h2-window-update-flood": (None, PROTOCOL),
    "h2-empty-data-flood": (None, PROTOCOL),
    "h2-header-bomb": (None, PROTOCOL),
    "h2-window-ignored": (None, FLOOD),
    "h2-garbage": (None, PROTOCOL),
    "h2-frame-too-large": (None, PROTOCOL),
    "h2-bad-compression": (None, PROTOCOL),
    "h2-no-status": (None, PROTOCOL),
    "h2-upper-case": (None, PROTOCOL),
    "h2-connection-header": (None, PROTOCOL),
    "h2-data-first": (None, PROTOCOL),
    "h2-idle-stream": (None, PROTOCOL),
    "h2-push": (None, PROTOCOL),
    "h2-window-overflow": (None, PROTOCOL),
    "h2-bad-settings": (None, PROTOCOL),
    "h2-unknown-frame": (None, SUCCEEDED),
    "h2-succeeded-and-reset": (None, SUCCEEDED),
}
VERSIONS: Final = ("HTTP/1.1", "HTTP/2")


@pytest.fixture(scope="module")
def http2_server() -> Iterator[str]:
    with serving("--http2") as url:
        yield url


@pytest.fixture(scope="module", params=[0, 1], ids=["no retry", "one retry"])
def outcomes(
    request: pytest.FixtureRequest, http2_server: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """Runs a job for each version that requests all faults at the same time; returns rows and the number of retries."""
    retries: int = request.param
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for version in VERSIONS:
        for row in asked_for(http2_server, version, retries, tmp_path_factory.mktemp("faults")):
            found[version, str(row["url"]).rpartition("/")[2]] = row
    return retries, found


def asked_for(server: str, version: str, retries: int, directory: Path) -> list[dict[str, Any]]:
    """Returns the rows of one job, each with a host of its own, so that its connection serves no other row."""
    port = server.rpartition(":")[2]
    urls = [f"http://{name}.test:{port}/fault/{name}" for name in FAULTS]
    lines = [f"{url},{'HEAD' if url.endswith('body-after-head') else 'GET'}\n" for url in urls]
    (directory / "rows.csv").write_text("url,method\n" + "".join(lines))
    flags = ["--timeout", str(TIMEOUT_S), "--max-body-size", str(MAX_BODY_BYTES), "-c", str(len(FAULTS))]
    flags += ["--method-column", "method"]
    flags += ["--retries", str(retries), "--retry-delay", "0.01", "--resolve", f"*:{port}:127.0.0.1"]
    flags += ["--http2-prior-knowledge"] if version == "HTTP/2" else []
    headgate("fetch", directory / "rows.csv", "-o", directory / "out", *flags, check=3)
    found = rows(directory / "out")
    assert list(range(len(FAULTS))) == [row["row"] for row in found]
    return found


def test_every_fault_of_the_server_is_in_the_table(http2_server: str) -> None:
    assert set(re.findall(r"^/fault/([a-z0-9-]+)", get(f"{http2_server}/"), re.MULTILINE)) == set(FAULTS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_as_one_outcome_of_its_kind(
    name: str, version: str, outcomes: tuple[int, dict[tuple[str, str], dict[str, Any]]]
) -> None:
    retries, found = outcomes
    outcome, expected = found[version, name], FAULTS[name][VERSIONS.index(version)]
    if expected is None:
        assert (501, None) == (outcome["status"], outcome["error"])
        return
    if name == RAPID_RESET and version == "HTTP/2":
        # If the first reset is read on its own, it ends an attempt before the flood is recognized as one.
        assert outcome["error"] in (PROTOCOL.error, CLOSED.error), outcome["error_message"]
        assert outcome["attempts"] in ((1, 2) if retries else (1,))
        return
    attempts = expected.attempts if retries else 1
    assert str(outcome["error"]) in str(expected.error).split("|"), outcome["error_message"]
    assert attempts == outcome["attempts"]
    assert (expected.error is None) == (outcome["error_message"] is None)
    # A loaded machine may notice a timeout late, but not much.
    assert outcome["elapsed_us"] < (TIMEOUT_S + 2) * 1_000_000
    assert not expected.waits or outcome["elapsed_us"] >= TIMEOUT_S * 1_000_000


def test_a_connection_that_no_server_accepts_is_connect(tmp_path: Path) -> None:
    headgate("fetch", "http://127.0.0.1:1/", "-o", tmp_path / "out", "--retries", "0", check=3)
    assert ["connect"] == [row["error"] for row in rows(tmp_path / "out")]


def test_a_handshake_without_a_response_is_connect_timeout_which_only_timeout_retries(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        headgate("fetch", url, "-o", out, "--connect-timeout", "0.2", "--retries", "0", check=3)
        for only, attempts in [("connect", 1), ("connect_timeout", 2), ("timeout", 3)]:
            headgate("retry", out, "--only", only, "--connect-timeout", "0.2", "--retries", "0", check=3)
            assert [("connect_timeout", attempts)] == [(row["error"], row["attempts"]) for row in rows(out)]


def test_a_name_that_does_not_exist_is_resolve(tmp_path: Path) -> None:
    headgate("fetch", "http://does-not-exist.invalid/", "-o", tmp_path / "out", check=3)
    assert ["dns"] == [row["error"] for row in rows(tmp_path / "out")]


def test_a_server_that_speaks_no_tls_is_tls(server: str, tmp_path: Path) -> None:
    headgate("fetch", server.replace("http:", "https:"), "-o", tmp_path / "out", check=3)
    assert ["tls"] == [row["error"] for row in rows(tmp_path / "out")]
