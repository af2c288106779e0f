"""Whatever a server does ends as one outcome of the right kind, within its timeout."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from support.results import rows
from support.run import get, headgate

TIMEOUT_S = 3.0
MAX_BODY_BYTES = 1024 * 1024

# The server's own list of faults, and the `error` that each becomes; None: it is answered.
EXPECTED: dict[str, str | None] = {
    # connection
    "refuse": "closed",
    "reset-before-headers": "closed",
    "close-mid-headers": "closed",
    "reset-after-headers": "closed",
    "reset-mid-body": "closed",
    "hang-before-headers": "timeout",
    "hang-mid-headers": "timeout",
    "hang-mid-body": "timeout",
    "drip": "timeout",
    "drip-headers": "timeout",
    "endless-body": "body_too_large",
    "endless-body-close-delimited": "body_too_large",
    "close-after-response": None,
    "close-idle": None,
    "reset-idle": None,
    "extra-bytes": None,
    "extra-response": None,
    # content
    "truncated-gzip": "decode",
    "corrupt-gzip": "decode",
    "gzip-bad-checksum": "decode",
    "gzip-trailing-garbage": None,
    "not-gzip": "decode",
    "empty-gzip": None,
    "gzip-twice": None,
    "raw-deflate": None,
    "unknown-encoding": None,
    "gzip-bomb": "body_too_large",
    "brotli-bomb": "body_too_large",
    "zstd-bomb": "body_too_large",
    "brotli-window": "body_too_large",
    "zstd-windows": "body_too_large",
    "deflated-nothing": "body_too_large",
    # framing
    "content-length-too-long": "closed",
    "content-length-too-short": None,
    "conflicting-content-lengths": "protocol",
    "repeated-content-length": None,
    "negative-content-length": "protocol",
    "content-length-no-number": "protocol",
    "content-length-overflow": "protocol",
    "content-length-huge": "body_too_large",
    "content-length-and-chunked": None,
    "unknown-transfer-encoding": "protocol",
    "bad-chunk-size": "protocol",
    "negative-chunk-size": "protocol",
    "chunk-size-overflow": "protocol",
    "chunk-too-long": "protocol",
    "truncated-chunk": "closed",
    "truncated-chunks": "closed",
    "endless-chunk-extension": "protocol",
    "endless-trailers": "protocol",
    "extensions-and-trailers": None,
    "body-after-head": None,
    "no-content-with-body": None,
    "not-modified": None,
    "not-modified-with-body": None,
    # head
    "garbage": "protocol",
    "http-09": "protocol",
    "bad-status": "protocol",
    "long-status": "protocol",
    "no-reason": None,
    "bad-version": "protocol",
    "unasked-upgrade": "protocol",
    "many-headers": "protocol",
    "long-header": "protocol",
    "endless-headers": "protocol",
    "endless-header": "protocol",
    "many-interim": "protocol",
    "endless-interim": "protocol",
    "folded-header": "protocol",
    "bare-line-feeds": None,
    "bare-carriage-return": "protocol",
    "nul-in-header": "protocol",
    "latin-1-header": None,
    "space-before-colon": "protocol",
    "no-colon": "protocol",
}


@pytest.fixture(scope="module")
def outcomes(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One job that asks for each fault once, all at the same time."""
    directory = tmp_path_factory.mktemp("faults")
    methods = {"body-after-head": "HEAD"}
    lines = [f"{server}/fault/{name},{methods.get(name, 'GET')}\n" for name in EXPECTED]
    (directory / "rows.csv").write_text("url,method\n" + "".join(lines))
    flags = ["--timeout-s", str(TIMEOUT_S), "--max-body-bytes", str(MAX_BODY_BYTES)]
    flags += ["-c", str(len(EXPECTED)), "--retries", "0"]
    headgate("fetch", directory / "rows.csv", "-o", directory / "out", *flags, check=3)
    found = rows(directory / "out")
    assert list(range(len(EXPECTED))) == [row["row"] for row in found]
    return {str(row["url"]).rpartition("/")[2]: row for row in found}


def test_every_fault_of_the_server_is_in_the_table(server: str) -> None:
    assert set(re.findall(r"/fault/([a-z0-9-]+)", get(f"{server}/"))) == set(EXPECTED)


@pytest.mark.parametrize(("name", "error"), EXPECTED.items(), ids=EXPECTED)
def test_a_fault_ends_as_one_outcome_of_its_kind(
    name: str, error: str | None, outcomes: dict[str, dict[str, Any]]
) -> None:
    outcome = outcomes[name]
    assert error == outcome["error"], outcome["error_message"]
    assert (error is None) == (outcome["error_message"] is None)
    # A loaded machine may notice the end of the time late, but not much.
    assert outcome["elapsed_us"] < (TIMEOUT_S + 2) * 1_000_000


def test_a_connection_that_nobody_accepts_is_connect(tmp_path: Path) -> None:
    headgate("fetch", "http://127.0.0.1:1/", "-o", tmp_path / "out", "--retries", "0", check=3)
    assert ["connect"] == [row["error"] for row in rows(tmp_path / "out")]


def test_a_server_that_does_not_answer_a_handshake_is_connect_timeout_which_only_timeout_asks_again(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        headgate("fetch", url, "-o", out, "--connect-timeout-s", "0.2", "--retries", "0", check=3)
        for only, attempts in [("connect", 1), ("connect_timeout", 2), ("timeout", 3)]:
            headgate("retry", out, "--only", only, "--connect-timeout-s", "0.2", "--retries", "0", check=3)
            assert [("connect_timeout", attempts)] == [(row["error"], row["attempts"]) for row in rows(out)]


def test_a_name_that_does_not_exist_is_resolve(tmp_path: Path) -> None:
    headgate("fetch", "http://does-not-exist.invalid/", "-o", tmp_path / "out", check=3)
    assert ["resolve"] == [row["error"] for row in rows(tmp_path / "out")]


def test_a_server_that_speaks_no_tls_is_tls(server: str, tmp_path: Path) -> None:
    headgate("fetch", server.replace("http:", "https:"), "-o", tmp_path / "out", check=3)
    assert ["tls"] == [row["error"] for row in rows(tmp_path / "out")]
