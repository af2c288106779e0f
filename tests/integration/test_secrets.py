"""Credentials are sent only to their origins, stored and shown nowhere, and renewed when a job is resumed."""

import base64
import json
import os
import signal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support.results import rows
from support.run import LONGEST_S, Done, headgate, serving, started, wait_for_requests

PASSWORD = "hunter" + "2"
BASIC = "Basic bWU6aHVudGVyMg=="


def sent(done: Done) -> list[dict[str, Any]]:
    """Returns the headers of each request as `/echo` of the server received them, with names in lower case."""
    seen = [json.loads(row["body"])["headers"] for row in done.rows()]
    return [{name.lower(): value for name, value in headers} for headers in seen]


def test_each_form_of_a_credential_is_sent(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert ["--user and --header both set Authorization: leave one of them out"] == refused.errors()
    assert not (tmp_path / "out").exists()
    with pytest.raises(package.UsageError, match="bearer and user both set Authorization"):
        package.fetch(f"{server}/", tmp_path / "out", bearer="x", user=f"me:{PASSWORD}")


def test_a_job_resumes_with_a_renewed_token_and_is_refused_without_one(tmp_path: Path) -> None:
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


def test_a_password_in_a_url_is_sent_and_written_nowhere(tmp_path: Path) -> None:
    urls, summary = tmp_path / "urls.txt", tmp_path / "summary.json"
    with serving() as server:
        with_user = server.replace("//", f"//me:{PASSWORD}@")
        urls.write_text(f"{with_user}/echo\n{with_user}/status/501\nhttp://me:{PASSWORD}@:0/\n")
        texts = []
        for name, source in (("pattern", f"{with_user}/{{echo,status/501}}"), ("file", str(urls))):
            out = tmp_path / name
            done = headgate("fetch", source, "-o", out, "--summary", summary, "-c", "1", check=3)
            texts += [done.stderr, summary.read_text()]
            texts += [headgate("status", out, "--as-json", check=3).stdout, headgate("show", out, check=0).stdout]
            assert f"{server}/echo" == rows(out)[0]["url"]
            assert BASIC == dict(json.loads(rows(out)[0]["body"])["headers"])["authorization"]
            texts += [str({**row, "body": None}) for row in rows(out)]
            # The body is what the server received; everything else is ours.
            texts += [path.read_text(errors="replace") for path in (out / "_headgate").rglob("*") if path.is_file()]
        refused = headgate("retry", tmp_path / "pattern", check=2)
        texts += [refused.stderr]
        assert (
            "its value isn't stored: give it with --user, --bearer, --token-command or --header" in refused.errors()[0]
        )
        headgate("retry", tmp_path / "pattern", "-u", f"me:{PASSWORD}", check=3)
        # Rows of a file have credentials of their own.
        headgate("retry", tmp_path / "file", check=3)
        twice = headgate("fetch", f"{with_user}/", "-o", "-", "-u", "me:x", check=2)
        texts += [twice.stderr]
        assert [
            "the URL has a user and password, and --user sets Authorization, too: leave one of them out"
        ] == twice.errors()
        within = headgate("fetch", with_user.replace(PASSWORD, PASSWORD + "[1-2]"), "-o", "-", check=2)
        texts += [within.stderr]
        assert "can't have a user and password in a range or set: give them with --user" in within.errors()[0]
    assert [] == [text for text in texts if PASSWORD in text]


def test_a_proxy_that_is_ignored_is_noted_at_the_start_and_in_the_summary(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@proxy:3128")
    summary = tmp_path / "summary.json"
    note = "HTTPS_PROXY is set but ignored: to connect through it, use --proxy env"
    done = headgate("fetch", f"{server}/", "-o", tmp_path / "out", "--summary", summary, check=0)
    assert [note, f"note: {note}"] == [line for line in done.stderr.splitlines() if "PROXY" in line]
    assert note == done.stderr.splitlines()[0]
    assert [note] == json.loads(summary.read_text())["notes"]
    assert "" == headgate("fetch", f"{server}/", "-o", tmp_path / "out", "-q", check=0).stderr
    assert PASSWORD not in done.stderr


PLANTED: Final = {
    name: f"planted-{number:02}-{name}"
    for number, name in enumerate(
        [
            "bearer",
            "cookie",
            "api-key",
            "auth-token",
            "named",
            "plain",
            "env",
            "body",
            "template",
            "url",
            "user",
            "proxy",
        ]
    )
}


@pytest.mark.parametrize("way", ["bearer", "user", "proxy"])
def test_no_byte_that_is_stored_or_shown_has_one_of_twelve_secrets(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, seen = tmp_path / "secrets", list[bytes]()
    directory.mkdir()
    files = {
        "bearer": PLANTED["bearer"],
        "headers": "\n".join(
            f"{name}: {PLANTED[secret]}"
            for name, secret in (
                *(("Cookie", "cookie"), ("X-Api-Key", "api-key"), ("X-Auth-Token", "auth-token")),
                *(("X-Mine", "named"), ("X-Plain", "plain")),
            )
        ),
        "body": PLANTED["body"],
        "templates": f"X-Row-Token: {PLANTED['template']}-{{row}}",
        "user": f"me:{PLANTED['user']}",
        "proxy": f"http://me:{PLANTED['proxy']}@127.0.0.1:1",
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    monkeypatch.setenv("PLANTED", PLANTED["env"])
    headers: tuple[str | Path, ...] = ("-H", f"@{directory / 'headers'}", "--header-env", "X-Env-Token=PLANTED")
    headers += ("--secret-header", "x-mine", "--header-template", f"@{directory / 'templates'}")
    headers += ("-d", f"@{directory / 'body'}", "--retry-non-idempotent")
    with serving() as server:
        rows_file = directory / "rows.csv"
        paths = ("hello", "status/501", "redirect/2", "fault/redirect-loop", "fault/hang-before-headers")
        with_user = server.replace("//", f"//me:{PLANTED['url']}@")
        rows_file.write_text(
            "url,row\n" + "".join(f"{with_user}/{path},{row}\n" for row, path in enumerate(paths)) + "http://[,9\n"
        )
        more: tuple[str | Path, ...] = {
            "bearer": ("--bearer", f"@{directory / 'bearer'}", "--credentials-for", server),
            "user": ("-u", f"@{directory / 'user'}", "--credentials-for", "*"),
            "proxy": ("--proxy", f"@{directory / 'proxy'}", "--credentials-for", "https://*.example.com"),
        }[way]
        out, summary = tmp_path / "out", tmp_path / "summary.json"
        arguments = (rows_file, "-o", out, *headers, *more, "--shutdown-timeout", "0", "--retries", "0")
        refused = headgate("fetch", rows_file, "-o", out, "-H", f"@{directory / 'bearer'}", check=2)
        seen += [refused.stderr.encode()]
        with started("fetch", *arguments, "--summary", summary) as process:
            seen += [Path(f"/proc/{process.pid}/cmdline").read_bytes()]
            if way != "proxy":  # No request gets through the proxy.
                wait_for_requests(server, 5)
                process.send_signal(signal.SIGINT)
            seen += [text.encode() for text in process.communicate(timeout=LONGEST_S)]
        retry = ("retry", out, *headers, *more, "--shutdown-timeout", "0", "--retries", "0", "--only", "status:5xx")
        for command in (("status", out, "--as-json"), ("show", out), retry, ("retry", out)):
            done = headgate(*command)
            seen += [done.stdout.encode(), done.stderr.encode()]
        for plan in (("plan", *arguments), ("plan", rows_file, *headers, *more, "--curl")):
            done = headgate(*plan)
            # A plan shows requests without credentials.
            shown = (done.stdout + done.stderr).replace(PLANTED["plain"], "").replace(PLANTED["body"], "")
            seen += [shown.encode()]
        seen += [summary.read_bytes()]
        seen += [path.read_bytes() for path in out.rglob("*") if path.is_file()]
        # Their pages are compressed.
        results = repr([pq.read_table(path).to_pylist() for path in out.glob("*.parquet")])
        assert "/status/501" in results
        seen += [results.encode()]
        seen += [os.fsencode(path) for path in out.rglob("*")]
    assert len(seen) > 15
    user = base64.b64encode(f"me:{PLANTED['user']}".encode())[4:-4]
    for secret in (*(secret.encode() for secret in PLANTED.values()), user):
        assert [] == [text[:2000] for text in seen if secret in text], secret


def test_a_stored_hash_of_a_value_is_slow_to_try_and_no_two_jobs_have_the_same(server: str, tmp_path: Path) -> None:
    stored = []
    for name in ("a", "b"):
        headgate("fetch", f"{server}/", "-o", tmp_path / name, "-H", "X-A: 1234", "-d", "1234", check=0)
        stored.append((tmp_path / name / "_headgate" / "job.json").read_text(errors="replace"))
        # The same job is recognised, and another one isn't.
        headgate("fetch", f"{server}/", "-o", tmp_path / name, "-H", "X-A: 1234", "-d", "1234", check=0)
        other = headgate("fetch", f"{server}/", "-o", tmp_path / name, "-H", "X-A: 1234", "-d", "1235", check=2)
        assert "--data is a different body" in other.errors()[0]
    hashes = [[value for value in text.split('"') if value.endswith("=") and len(value) == 44] for text in stored]
    assert all(hashes)
    assert not set(hashes[0]) & set(hashes[1])


def test_the_credentials_of_a_client_go_to_its_base_url_and_those_of_a_call_to_its_own(server: str) -> None:
    def authorization(response: package.Response) -> list[str]:
        return [value for name, value in response.json()["headers"] if name.lower() == "authorization"]

    refusal = r"^bearer is a credential, and nothing says which hosts may get it: .*credentials_for='https://api"
    with pytest.raises(package.UsageError, match=refusal):
        package.Client(bearer="abc")
    with serving() as other:
        for options in ({"base_url": f"{server}/v1"}, {"credentials_for": server}):
            with package.Client(bearer="abc", **options) as client:  # type: ignore[arg-type] # one of two texts
                assert ["Bearer abc"] == authorization(client.get(f"{server}/echo"))
                assert [] == authorization(client.get(f"{other}/echo"))
                assert ["Basic bWU6eA=="] == authorization(client.get(f"{other}/echo", auth=("me", "x")))
        table = pa.table({"url": [f"{server}/echo", f"{other}/echo"]})
        with pytest.raises(package.UsageError, match=refusal):
            package.fetch_table(table, bearer="abc")
        results = pa.table(package.fetch_table(table, bearer="abc", credentials_for=server)).sort_by("row")
        assert [True, False] == [b"Bearer abc" in body for body in results["body"].to_pylist()]
        with package.Client() as client:
            templates = {"X-Api-Key": "abc"}
            with pytest.raises(package.UsageError, match="header_templates is a credential"):
                client.fetch_table(table, header_templates=templates)
        with package.Client(base_url=server) as client:
            results = pa.table(client.fetch_table(table, header_templates=templates)).sort_by("row")
        assert [True, False] == [b"X-Api-Key" in body for body in results["body"].to_pylist()]


def test_calls_with_other_secrets_share_no_run(server: str) -> None:
    for number in range(3):
        table = pa.table({"url": [f"{server}/echo"]})
        (body,) = pa.table(package.fetch_table(table, bearer=f"t{number}", credentials_for="*"))["body"].to_pylist()
        assert f"Bearer t{number}".encode() in body
