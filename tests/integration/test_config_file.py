"""`--config`: a file with the options of each verb."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.documents import ROOT
from support.run import Done, headgate as run, serving

BAD = """
top = 1

[fetch]
timeot = 5
bearer = "s3cr3t"
user = "ann:s3cr3t"
headers = ["Authorization: Bearer s3cr3t", "Accept: text/html"]
timeout = "soon"
insecure = 1
retries = [1]
keep = [{ a = 1 }]

[fetc]
"""
MISTAKES = [
    "top is in no table: write it below [fetch]",
    "[fetc] is no verb: did you mean [fetch]?",
    "[fetch] timeot is not an option: did you mean timeout?",
    '[fetch] bearer is a secret: write "@FILE" or "env:VARIABLE"',
    '[fetch] user is a secret: write "@FILE" or "env:VARIABLE"',
    (
        "[fetch] headers has a value of Authorization, which is a secret:"
        ' write [fetch.headers] and Authorization = "env:VARIABLE", or a file of headers as "@FILE"'
    ),
    "[fetch] insecure must be true or false, not int",
    "[fetch] retries must be text or a number, not list",
    "[fetch] keep must be text or a number, not dict",
    "[fetch] timeout must be a duration such as 30s, 500ms or 5m, not 'soon'",
]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "headgate.toml"


def fetch(*arguments: str) -> Done:
    return run("fetch", "--config", "headgate.toml", *arguments)


def test_a_key_that_is_a_flag_is_answered_with_the_name_of_its_option(config: Path) -> None:
    config.write_text("[files]\njson = true\n[status]\njson = true\n")
    for verb in ("files", "status"):
        done = run(verb, "out", "--config", "headgate.toml")
        assert (2, [f"headgate.toml: [{verb}] json is not an option: did you mean as_json?"]) == (
            done.code,
            done.errors(),
        )


def test_options_of_a_file_are_as_if_typed(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "abc")
    Path("token.txt").write_text("t0ken\n")
    with serving() as server:
        config.write_text(
            f"""
            [fetch]
            input = "{server}/echo?[1-3]"
            output = "-"
            concurrency = 2
            timeout = "5s"
            retry_delay = 0.5
            quiet = true
            tls_server_name = "other"
            decode = false
            json = {{ page = 1 }}
            method = "POST"
            credentials_for = ["{server}"]

            [fetch.headers]
            Accept = "text/html"
            X-Api-Key = "env:API_KEY"
            X-Two = ["1", "2"]

            [fetch.rate_per_host]
            "*" = "1000/s"

            [show]
            rows = 1
            """
        )
        done = fetch()
        typed = fetch(f"{server}/echo?[7-7]", "-X", "PUT", "-H", "Accept: */*")
    assert (0, 0) == (done.code, typed.code), done.stderr + typed.stderr
    (first, *_), (of_typed,) = done.rows(), typed.rows()
    assert 3 == len(done.rows())  # and one of the input that was typed
    sent, sent_typed = json.loads(first["body"]), json.loads(of_typed["body"])
    assert ("POST", "PUT", {"page": 1}) == (sent["method"], sent_typed["method"], json.loads(sent["body"]))
    names = ("accept", "x-api-key", "x-two")
    assert {"accept: text/html", "x-api-key: abc", "x-two: 1", "x-two: 2"} == headers(sent, names)
    # `-H` replaces the headers of the file, but for those of variables, which `--header-env` replaces.
    assert {"accept: */*", "x-api-key: abc"} == headers(sent_typed, names)


def headers(echo: dict[str, Any], names: tuple[str, ...]) -> set[str]:
    return {f"{name.lower()}: {value}" for name, value in echo["headers"] if name.lower() in names}


def test_the_example_of_the_page_is_valid(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/fetch.md").read_text(encoding="utf-8")
    [_, after] = page.split("    # headgate.toml\n")
    config.write_text(textwrap.dedent(after.partition("\nThen ")[0]).replace("/run/secrets/token", "token"))
    monkeypatch.setenv("API_KEY", "abc")
    Path("token").write_text("t0ken")
    with serving() as server:
        Path("urls.csv").write_text(f"url,id,country\n{server}/echo,1,de\n")
        done = fetch("--credentials-for", server)
    assert (0, []) == (done.code, done.errors())
    [row] = pa.table(headgate.Job.open("results").rows()).to_pylist()
    assert ("1", "de", True) == (str(row["id"]), row["country"], b"t0ken" in row["body"])


def test_all_mistakes_of_a_file_are_reported_and_no_secret(config: Path) -> None:
    config.write_text(BAD)
    done = fetch("http://localhost/", "-o", "results")
    assert 2 == done.code
    assert [f"headgate.toml: {mistake}" for mistake in MISTAKES] == done.errors()
    assert "s3cr3t" not in done.stderr
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (None, "--config can't read 'headgate.toml': no such file or directory"),
        (b"[fetch\n", "--config 'headgate.toml' is not TOML: Expected ']' at the end of a table declaration"),
        (b"\xff", "--config 'headgate.toml' is not TOML: "),
        (b"#" * (1024**2 + 1), "--config 'headgate.toml' has more than 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_mistake(content: bytes | None, mistake: str, config: Path) -> None:
    if content is not None:
        config.write_bytes(content)
    done = fetch("http://localhost/", "-o", "results")
    assert 2 == done.code
    assert done.errors()[0].startswith(mistake)


def test_a_reference_to_a_variable_that_is_not_set_is_a_mistake(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    monkeypatch.setenv("EMPTY", "")
    config.write_text('[fetch]\nbearer = "env:API_KEY"\n[fetch.headers]\nX-Key = "env:EMPTY"\n')
    done = fetch("http://localhost/", "-o", "results")
    assert done.errors() == [
        "headgate.toml: [fetch] headers names a variable for X-Key that is empty",
        "headgate.toml: [fetch] bearer names a variable that is not set: API_KEY",
    ]


def test_secrets_are_read_from_variables_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t0ken")
    monkeypatch.setenv("LOGIN", "ann:pw")
    for flag, sent in [(("--bearer", "env:TOKEN"), "Bearer t0ken"), (("-u", "env:LOGIN"), "Basic YW5uOnB3")]:
        with serving() as server:
            done = run("fetch", f"{server}/echo", "-o", "-", "-q", *flag, check=0)
        assert sent in done.rows()[0]["body"]


def test_other_verbs_have_their_own_table(config: Path) -> None:
    with serving() as server:
        run("fetch", f"{server}/[1-5]", "-o", "results", check=0)
    config.write_text('[show]\nrows = 2\n\n[fetch]\nunknown = "is a mistake of fetch alone"\n')
    assert "2 of 5 rows" in run("show", "results", "--config", "headgate.toml", check=0).stdout


def test_a_switch_that_is_typed_in_its_opposite_form_wins(config: Path) -> None:
    config.write_text("[fetch]\nquiet = true\n")
    with serving() as server:
        assert "done: 1 row" in fetch(f"{server}/1", "-o", "loud", "--no-quiet").stderr
        assert "" == fetch(f"{server}/1", "-o", "quiet").stderr


def test_values_that_json_does_not_have_and_headers_named_as_secret_are_mistakes(config: Path) -> None:
    config.write_text(
        '[fetch]\nsecret_headers = ["X-Internal"]\njson = { day = 2026-01-01 }\n'
        '[fetch.headers]\nX-Internal = "s3cr3t"\n'
    )
    done = fetch("http://localhost/", "-o", "results")
    of_json, of_header = done.errors()
    assert "json has a value that JSON doesn't have" in of_json
    assert "headers has a value of X-Internal, which is a secret" in of_header
    assert "s3cr3t" not in done.stderr
