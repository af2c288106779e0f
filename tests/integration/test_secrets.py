"""Credentials: sent where they were asked for, stored and shown nowhere, and renewed while a job goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as package
from support.results import rows
from support.run import Done, headgate, serving

PASSWORD = "hunter" + "2"
BASIC = "Basic bWU6aHVudGVyMg=="


def sent(done: Done) -> list[dict[str, Any]]:
    """The headers of each request, as the server's `/echo` saw them, with their names in small letters."""
    seen = [json.loads(row["body"])["headers"] for row in done.rows()]
    return [{name.lower(): value for name, value in headers} for headers in seen]


def test_each_way_to_give_a_credential_sends_it(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("Authorization: Bearer abc\n")
    (tmp_path / "token").write_text("abc\n")
    monkeypatch.setenv("WHOLE", "Bearer abc")
    for expected, arguments in [
        ("Bearer abc", ["-H", f"@{file}"]),
        ("Bearer abc", ["--header-env", "Authorization=WHOLE"]),
        ("Bearer abc", ["--bearer", f"@{tmp_path / 'token'}"]),
        (BASIC, ["-u", f"me:{PASSWORD}"]),
    ]:
        (headers,) = sent(headgate("fetch", f"{server}/echo", "-o", "-", *arguments, check=0))
        assert expected == headers["authorization"]
    (headers,) = sent(headgate("fetch", f"{server}/echo", "-o", "-", "--bearer", "@-", stdin="abc\n", check=0))
    assert "Bearer abc" == headers["authorization"]


def test_two_credentials_for_one_header_are_refused_with_both_names(server: str, tmp_path: Path) -> None:
    refused = headgate(
        "fetch", f"{server}/", "-o", tmp_path / "out", "-u", f"me:{PASSWORD}", "-H", "authorization: x", check=2
    )
    assert ["--header and --user both set Authorization: leave one of them out"] == refused.errors()
    assert not (tmp_path / "out").exists()
    with pytest.raises(package.UsageError, match="bearer and user both set Authorization"):
        package.fetch(f"{server}/", tmp_path / "out", bearer="x", user=f"me:{PASSWORD}")


def test_a_renewed_token_goes_on_and_a_forgotten_one_is_refused(tmp_path: Path) -> None:
    out, url = tmp_path / "out", "/status/501"
    with serving() as server:
        begun = ("fetch", f"{server}{url}", "-o", out, "-H", "X-A: 1")
        headgate(*begun, "-H", f"Authorization: {PASSWORD}", check=3)
        missing = "the header authorization is missing, and its value isn't stored: give it with --user, --bearer"
        for command in (begun, ("retry", out, "-H", "X-A: 1")):
            assert missing in headgate(*command, check=2).errors()[0]
            assert headgate(*command, "-u", "me:renewed", check=3).errors() == []
        other = headgate("retry", out, "-H", "X-A: 2", "-u", "me:x", check=2).errors()[0]
        assert "the value of --header x-a has changed" in other
        assert headgate("retry", out, "-H", "X-A: 2", "-u", "me:x", "--secret-header", "x-a", check=3).errors() == []
        package.Job.open(out).retry(headers={"X-A": "1"}, bearer="renewed")


def test_a_password_in_a_url_is_sent_and_stands_in_nothing_that_is_written(tmp_path: Path) -> None:
    urls, summary = tmp_path / "urls.txt", tmp_path / "summary.json"
    with serving() as server:
        with_user = server.replace("//", f"//me:{PASSWORD}@")
        urls.write_text(f"{with_user}/echo\n{with_user}/status/501\nhttp://me:{PASSWORD}@:0/\n")
        told = []
        for name, source in (("pattern", f"{with_user}/{{echo,status/501}}"), ("file", str(urls))):
            out = tmp_path / name
            done = headgate("fetch", source, "-o", out, "--summary", summary, "-c", "1", check=3)
            told += [done.stderr, summary.read_text()]
            told += [headgate(*command, check=0).stdout for command in (("status", out, "--json"), ("show", out))]
            assert f"{server}/echo" == rows(out)[0]["url"]
            assert BASIC == dict(json.loads(rows(out)[0]["body"])["headers"])["authorization"]
            told += [str({**row, "body": None}) for row in rows(out)]
            # What the server told is its own; the rest is ours.
            told += [path.read_text(errors="replace") for path in (out / "_headgate").rglob("*") if path.is_file()]
        refused = headgate("retry", tmp_path / "pattern", check=2)
        told += [refused.stderr]
        assert "its value isn't stored: give it with --user, --bearer or --header" in refused.errors()[0]
        headgate("retry", tmp_path / "pattern", "-u", f"me:{PASSWORD}", check=3)
        # Rows of a file have their own again.
        headgate("retry", tmp_path / "file", check=3)
        twice = headgate("fetch", f"{with_user}/", "-o", "-", "-u", "me:x", check=2)
        told += [twice.stderr]
        assert [
            "the URL has a user and password, and --user says what Authorization is: leave one of them out"
        ] == twice.errors()
        within = headgate("fetch", with_user.replace(PASSWORD, PASSWORD + "[1-2]"), "-o", "-", check=2)
        told += [within.stderr]
        assert "can't have a user and password in a range or set: give them with --user" in within.errors()[0]
    assert [] == [text for text in told if PASSWORD in text]


def test_a_proxy_that_is_ignored_is_told_once_at_the_start_and_in_the_summary(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@proxy:3128")
    summary = tmp_path / "summary.json"
    note = "HTTPS_PROXY is set but ignored: to connect through it, use --proxy env"
    done = headgate("fetch", f"{server}/", "-o", tmp_path / "out", "--summary", summary, check=0)
    assert [note] == [line for line in done.stderr.splitlines() if "PROXY" in line]
    assert note == done.stderr.splitlines()[0]
    assert [note] == json.loads(summary.read_text())["notes"]
    assert "" == headgate("fetch", f"{server}/", "-o", tmp_path / "out", "-q", check=0).stderr
    assert PASSWORD not in done.stderr
