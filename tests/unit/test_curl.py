"""Requests as commands for curl."""

import base64
import shlex
import subprocess
from typing import Any

import pytest

from headgate.jobs._curl import Connecting, command, variables
from support.plans import request

PLAIN = Connecting(timeout_s=30.0, connect_timeout_s=10.0)


def words(made: str) -> list[str]:
    """As a shell reads it, without variables."""
    return shlex.split(made.replace(" \\\n", " "))


def body(data: bytes) -> dict[str, Any]:
    try:
        return {"bytes": len(data), "text": data.decode(), "base64": None}
    except UnicodeDecodeError:
        return {"bytes": len(data), "text": None, "base64": base64.b64encode(data).decode()}


def test_a_get_is_its_url_and_its_headers() -> None:
    assert words(command(request(headers=[["host", "a"], ["x-empty", ""]], secret=[]), PLAIN)) == [
        *("curl", "-q", "--http1.1", "--path-as-is", "--globoff", "--compressed"),
        *("--noproxy", "*", "--max-time", "30", "--connect-timeout", "10"),
        *("-H", "host: a", "-H", "x-empty;"),
        *("-H", "user-agent:", "-H", "accept:", "-H", "content-type:", "-H", "expect:"),
        "http://a.example/0",
    ]


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
    made = request(line=f"{method} /0 HTTP/1.1", headers=[], secret=[], body=None if data is None else body(data))
    others = words(command(request(headers=[], secret=[]), PLAIN))
    assert sorted([*others, *expected]) == sorted(words(command(made, PLAIN)))


def test_what_is_asked_of_a_connection_is_asked_of_curl() -> None:
    def options(**changes: Any) -> list[str]:
        connecting = Connecting(**{"timeout_s": 1.5, "connect_timeout_s": 2.0, **changes})
        return command(request(), connecting).splitlines()[1:3]

    assert "  --noproxy '*' --max-time 1.5 --connect-timeout 2 \\" == options()[0]
    assert "  --cacert 'my ca.pem' \\" == options(cacert="my ca.pem")[1]
    assert "  --insecure \\" == options(cacert="ca.pem", insecure=True)[1]


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (["-x", "http://p:3128"], {"proxy": ("http://p:3128", "http://q:3128")}),
        (["-x", "http://p:80"], {"proxy": ("http://p/",)}),
        (["-x", "p:80"], {"proxy": ("p",)}),
        (["-x", "https://p:443"], {"proxy": ("https://p",)}),
        (["-x", "socks5h://[::1]:1080"], {"proxy": ("socks5h://[::1]",)}),
        ([], {"proxy": ("env",)}),
        (["--noproxy", "*", "--cert", r"a\:b.pem", "--key", "k e y"], {"cert": "a:b.pem", "key": "k e y"}),
        (["--noproxy", "*", "--tlsv1.3"], {"tls_min": "1.3"}),
        (["--noproxy", "*", "--resolve", "a:1:::1", "--resolve", "b:1:::1"], {"resolve": ("a:1:::1", "b:1:::1")}),
        (["--noproxy", "*", "-4"], {"ipv4": True}),
        (["--noproxy", "*", "-6", "--interface", "::1"], {"ipv6": True, "local_address": ("::1", "::2")}),
        (["--noproxy", "*", "--interface", "eth1"], {"interface": "eth1", "local_address": ("::1",)}),
    ],
)
def test_how_a_server_is_reached_is_told_to_curl(expected: list[str], changes: dict[str, Any]) -> None:
    asked = words(command(request(), Connecting(timeout_s=30.0, connect_timeout_s=10.0, **changes)))
    plain = words(command(request(), PLAIN))
    assert sorted([*(word for word in plain if word not in {"--noproxy", "*"}), *expected]) == sorted(asked)


def test_a_host_that_is_known_to_speak_http2_is_asked_so_by_curl() -> None:
    connecting = Connecting(timeout_s=30.0, connect_timeout_s=10.0, http2_prior_knowledge=True)
    assert ["curl", "-q", "--http2-prior-knowledge"] == words(command(request(), connecting))[:3]


def test_the_credentials_of_a_proxy_are_a_variable_that_has_to_be_set() -> None:
    connecting = Connecting(timeout_s=30.0, connect_timeout_s=10.0, proxy=("http://me:secret@p:3128",))
    made = request(headers=[], secret=[])
    assert ["SECRET_PROXY"] == variables(made, connecting)
    assert '-x "${SECRET_PROXY:?}" --max-time' in command(made, connecting)
    assert "secret@" not in command(made, connecting)


@pytest.mark.parametrize(
    ("expected", "target"),
    [
        (["--connect-to", "b.example:443:a.example:443", "https://b.example/0"], "https://a.example/0"),
        (["--connect-to", "b.example:8443:[::1]:8443", "https://b.example:8443/?q"], "https://[::1]:8443/?q"),
        (["http://a.example/0"], "http://a.example/0"),
    ],
)
def test_another_name_for_tls_is_that_of_the_url_for_curl(expected: list[str], target: str) -> None:
    connecting = Connecting(timeout_s=30.0, connect_timeout_s=10.0, sni="b.example")
    asked = words(command(request(target=target), connecting))
    assert expected == asked[-len(expected) :]


def test_the_shell_refuses_a_secret_that_is_not_set() -> None:
    names = ["authorization", "X-Key", "x-key", "path"]
    made = request(headers=[[name, "***"] for name in names], secret=names)
    assert ["SECRET_AUTHORIZATION", "SECRET_X_KEY", "SECRET_X_KEY_2", "SECRET_PATH"] == variables(made, PLAIN)
    shown = command(made, PLAIN)
    assert [
        f'-H "{name}: ${{{variable}:?}}"' for name, variable in zip(names, variables(made, PLAIN), strict=True)
    ] == [line.strip(" \\") for line in shown.splitlines() if "SECRET" in line]
    done = subprocess.run(["/bin/sh", "-c", shown], capture_output=True, text=True, check=False)
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
def test_the_shell_hands_over_the_very_bytes_of_a_body(data: bytes, tmp_path: Any) -> None:
    made = command(request(line="POST / HTTP/1.1", headers=[], secret=[], body=body(data)), PLAIN)
    assert made.replace("\n", "").isprintable()
    # Instead of curl: what it is given with the option, or on standard input.
    curl = tmp_path / "curl"
    curl.write_text(
        '#!/bin/sh\nwhile [ "$1" != --data-binary ]; do shift; done\n[ "$2" = @- ] && exec cat\nprintf %s "$2"\n'
    )
    curl.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh"], input=made.encode(), capture_output=True, check=True, env=environment)
    assert data == done.stdout


def test_the_shell_puts_a_body_together_from_its_files_and_what_is_between(tmp_path: Any) -> None:
    name, data = "it's a file", bytes(range(256))
    (tmp_path / name).write_bytes(data)
    curl = tmp_path / "curl"
    curl.write_text(
        '#!/bin/sh\nwhile [ "$1" != --data-binary ]; do shift; done\ncase "$2" in @-) cat ;; @*) cat "${2#@}" ;; esac\n'
    )
    curl.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for path in (name, str(tmp_path / name)):
        file = {"file": {"path": path, "bytes": 256}}
        mixed = [{"text": "--x\r\na: 'b'\r\n\r\n"}, file, {"base64": "/wA="}, file]
        for expected, pieces in ((data, [file]), (b"--x\r\na: 'b'\r\n\r\n" + data + b"\xff\0" + data, mixed)):
            told = {"bytes": len(expected), "text": None, "base64": None, "pieces": pieces}
            made = command(request(line="POST / HTTP/1.1", headers=[], secret=[], body=told), PLAIN)
            shell = ["/bin/sh", "-c", made]
            done = subprocess.run(shell, capture_output=True, check=True, env=environment, cwd=tmp_path)
            assert expected == done.stdout


def test_a_header_that_a_terminal_would_obey_is_written_by_its_bytes() -> None:
    made = command(request(headers=[["x-a", "a\x9b'"]], secret=[]), PLAIN)
    assert r"""-H "$(printf %b 'x-a: a\0302\0233\0047')" """ in made
