"""A planned request has a command for curl that sends the same."""

import base64
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate
from support.certificates import certificate

URL = "http://a.example/[0-0]"


def planned(url: Any = URL, **options: Any) -> Any:
    """Returns the first request of a job with these options."""
    return headgate.plan(url, **options).requests[0]


def words(url: Any = URL, **options: Any) -> list[str]:
    """Returns the words of the command as a shell reads it, without variables."""
    return shlex.split(planned(url, **options).curl.replace(" \\\n", " "))


def run(command: str, directory: Path, option: str) -> bytes:
    """Runs a command with a program in place of curl, which prints what the shell hands over with `--data-binary`."""
    curl = directory / "curl"
    curl.write_text(
        f'#!/bin/sh\nwhile [ "$1" != --data-binary ]; do shift; done\ncase "$2" in @-) cat ;; {option} esac\n'
    )
    curl.chmod(0o755)
    environment = {"PATH": f"{directory}:/usr/bin:/bin"}
    # The command comes on standard input, because an argument may have 128 KiB at most.
    done = subprocess.run(
        ["/bin/sh"], input=command.encode(), capture_output=True, check=True, env=environment, cwd=directory
    )
    return done.stdout


def test_a_get_is_its_url_and_its_headers() -> None:
    assert [
        *("curl", "-q", "--http1.1", "--path-as-is", "--globoff", "--compressed"),
        *("--noproxy", "*", "--max-time", "30", "--connect-timeout", "10"),
        *("-H", "host: b", "-H", "user-agent: me/1", "-H", "accept: */*"),
        *("-H", "accept-encoding: gzip, deflate, br, zstd", "-H", "x-empty;"),
        *("-H", "content-type:", "-H", "expect:"),
        "http://a.example/0",
    ] == words(headers={"host": "b", "x-empty": ""}, user_agent="me/1")


@pytest.mark.parametrize(
    ("expected", "method", "data"),
    [
        ([], "GET", None),
        (["--head"], "HEAD", None),
        (["-X", "DELETE"], "DELETE", None),
        (["--data-binary", ""], "POST", None),
        (["-X", "PUT", "--data-binary", ""], "PUT", None),
        (["--data-binary", "a\nb"], "POST", b"a\nb"),
        (["-X", "GET", "--data-binary", "{}"], "GET", b"{}"),
    ],
)
def test_the_method_and_the_body_are_those_of_the_request(expected: list[str], method: str, data: bytes | None) -> None:
    headers = {"content-type": "text/plain"}
    assert sorted([*words(headers=headers), *expected]) == sorted(words(method=method, data=data, headers=headers))


def test_timeouts_are_those_of_the_job() -> None:
    lines = planned(timeout=1.5, connect_timeout=2.0).curl.splitlines()
    assert "  --noproxy '*' --max-time 1.5 --connect-timeout 2 \\" == lines[1]


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (["-x", "http://p:3128"], {"proxy": ("http://p:3128", "http://q:3128")}),
        (["-x", "http://p:80"], {"proxy": "http://p/"}),
        (["-x", "p:80"], {"proxy": "p"}),
        (["-x", "https://p:443"], {"proxy": "https://p"}),
        (["-x", "socks5h://[::1]:1080"], {"proxy": "socks5h://[::1]"}),
        ([], {"proxy": "env"}),
        (["--noproxy", "*", "--insecure"], {"cacert": "ca.pem", "insecure": True}),
        (["--noproxy", "*", "--tlsv1.3"], {"tls_min": "1.3"}),
        (["--noproxy", "*", "--resolve", "a:1:::1", "--resolve", "b:1:::1"], {"resolve": ("a:1:::1", "b:1:::1")}),
        (["--noproxy", "*", "-4"], {"ipv4": True}),
        (["--noproxy", "*", "-6"], {"ipv6": True}),
        (["--noproxy", "*", "--interface", "127.0.0.1"], {"local_address": ("127.0.0.1", "127.0.0.2")}),
        (["--noproxy", "*", "--interface", "lo"], {"interface": "lo", "local_address": "127.0.0.1"}),
    ],
)
def test_curl_reaches_a_server_as_the_job_does(expected: list[str], options: dict[str, Any]) -> None:
    plain = [word for word in words() if word not in {"--noproxy", "*"}]
    assert sorted([*plain, *expected]) == sorted(words(**options))


def test_certificates_are_those_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = certificate(tmp_path)
    monkeypatch.chdir(tmp_path)
    made.file.rename("a:b.pem")
    made.key.rename("k e y")
    expected = ["--cacert", "a:b.pem", "--cert", r"a\:b.pem", "--key", "k e y"]
    assert sorted([*words(), *expected]) == sorted(words(cacert="a:b.pem", cert="a:b.pem", key="k e y"))


def test_curl_speaks_http2_to_a_host_that_is_known_to_do_so() -> None:
    assert ["curl", "-q", "--http2-prior-knowledge"] == words(http2_prior_knowledge=True)[:3]


def test_the_credentials_of_a_proxy_are_a_variable_that_has_to_be_set() -> None:
    request = planned(proxy="http://me:secret@p:3128")
    assert ("SECRET_PROXY",) == request.variables
    assert '-x "${SECRET_PROXY:?}" --max-time' in request.curl
    assert "secret@" not in request.curl


@pytest.mark.parametrize(
    ("expected", "url"),
    [
        (["--connect-to", "b.example:443:a.example:443", "https://b.example/0"], "https://a.example/[0-0]"),
        (["--connect-to", "b.example:8443:[::1]:8443", "https://b.example:8443/0?q"], "https://[::1]:8443/[0-0]?q"),
        (["http://a.example/0"], "http://a.example/[0-0]"),
    ],
)
def test_another_hostname_for_tls_is_that_of_the_url_for_curl(expected: list[str], url: str) -> None:
    assert expected == words(url, tls_server_name="b.example")[-len(expected) :]


def test_the_shell_refuses_a_secret_that_is_not_set() -> None:
    names = ["authorization", "X-Key", "x-key", "path"]
    request = planned(headers=[(name, "secret") for name in names], secret_headers=names)
    assert ("SECRET_AUTHORIZATION", "SECRET_X_KEY", "SECRET_X_KEY_2", "SECRET_PATH") == request.variables
    assert [f'-H "{name}: ${{{variable}:?}}"' for name, variable in zip(names, request.variables, strict=True)] == [
        line.strip(" \\") for line in request.curl.splitlines() if "SECRET" in line
    ]
    done = subprocess.run(["/bin/sh", "-c", request.curl], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "SECRET_AUTHORIZATION" in done.stderr


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"@file", b"a'b\"c $HOME `x` \\n %s", b"\\0101", "wörld\n\n".encode()),
        *(b"a\x1b[2J", bytes(range(256)), b"x" * 200_000),
    ],
    ids=["none", "at", "quotes", "backslash", "text", "escape", "bytes", "long"],
)
def test_the_shell_hands_over_the_very_bytes_of_a_body(data: bytes, tmp_path: Path) -> None:
    command = planned(method="POST", data=data).curl
    assert command.replace("\n", "").isprintable()
    assert data == run(command, tmp_path, option='*) printf %s "$2" ;;')


def test_the_shell_joins_a_body_from_its_files_and_the_text_between_them(tmp_path: Path) -> None:
    name, data = "it's a file", bytes(range(256))
    (tmp_path / name).write_bytes(data)
    rows = {"url": ["http://a.example/"], "binary": [b"\xff\0"], "path": [name], "absolute": [str(tmp_path / name)]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    for options in (
        {"body_file_column": "path"},
        {"body_file_column": "absolute"},
        {"form": ("a='b'", "b={binary}", "c=@{path}", "d=@{absolute}", "e=f")},
    ):
        request = planned(tmp_path / "rows.parquet", method="POST", upload_root=tmp_path, **options)
        pieces = request.body.pieces
        expected = b"".join(
            data if piece.file else base64.b64decode(piece.base64) if piece.base64 else piece.text.encode()
            for piece in pieces
        )
        assert request.body.bytes == len(expected)
        assert ("form" in options) == (b"\xff\0" in expected.replace(data, b""))
        assert expected == run(request.curl, tmp_path, option='@*) cat "${2#@}" ;;')


def test_a_header_that_a_terminal_would_obey_is_written_by_its_bytes() -> None:
    assert r"""-H "$(printf %b 'x-a: a\0302\0233\0047')" """ in planned(headers={"x-a": "a\x9b'"}).curl
