"""The local server speaks TLS, with a given certificate or its own, and HTTP/2, as its flags say."""

import subprocess
from pathlib import Path

import pytest

from support.certificates import certificate
from support.programs import program
from support.results import rows
from support.run import headgate, serving


def fetched(directory: Path, url: str, *flags: str | Path) -> list[tuple[str, bytes]]:
    """Returns the version and the body of each row."""
    headgate("fetch", f"{url}/[1-100]", "-o", directory / "out", "--if-exists", "overwrite", *flags, check=0)
    return [(row["http_version"], row["body"]) for row in rows(directory / "out")]


@pytest.mark.parametrize("is_given", [True, False])
def test_with_tls_the_client_chooses_the_version(is_given: bool, tmp_path: Path) -> None:
    given = certificate(tmp_path) if is_given else None
    trusted = tmp_path / "certificate.pem"
    flags = ["--cert", str(given.file), "--key", str(given.key)] if given else ["--self-signed", str(trusted)]
    with serving(*flags, "--http2") as url:
        assert url.startswith("https://127.0.0.1:")
        assert [("HTTP/2", b"Hello, World!")] * 100 == fetched(tmp_path, url, "--cacert", trusted)
        assert [("HTTP/1.1", b"Hello, World!")] * 100 == fetched(tmp_path, url, "--cacert", trusted, "--http1.1")
    with serving(*flags) as url:
        assert [("HTTP/1.1", b"Hello, World!")] * 100 == fetched(tmp_path, url, "--cacert", trusted)


def test_both_versions_are_spoken_on_one_port_without_tls(tmp_path: Path) -> None:
    with serving("--http2", "--http2-streams", "7") as url:
        assert [("HTTP/1.1", b"Hello, World!")] * 100 == fetched(tmp_path, url)
        assert [("HTTP/2", b"Hello, World!")] * 100 == fetched(tmp_path, url, "--http2-prior-knowledge")


def test_curl_understands_our_tls_and_http_2(tmp_path: Path) -> None:
    with serving("--self-signed", str(tmp_path / "cert.pem"), "--http2") as url:
        command = [
            program("curl", "curl"),
            "-q",
            "-s",
            "--cacert",
            str(tmp_path / "cert.pem"),
            "-w",
            " %{http_version}",
        ]
        done = subprocess.run([*command, f"{url}/hello"], capture_output=True, check=True, timeout=30)
    assert b"Hello, World! 2" == done.stdout


def test_robots_txt_may_be_served_from_another_path(tmp_path: Path) -> None:
    with serving("--robots", "/status/503") as url:
        headgate("fetch", f"{url}/robots.txt", "-o", tmp_path / "out", "--retries", "0", check=3)
    assert [503] == [row["status"] for row in rows(tmp_path / "out")]
