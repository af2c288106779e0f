"""The command for a retry that a report recommends has the flags that the job does not store."""

from pathlib import Path

import pytest

from headgate import Summary
from headgate.cli import _fetch_flags, _retry_flags
from headgate.jobs import _report
from headgate.jobs._as_flag import as_flag
from support.figures import RESUMED, summary_json


def needed(*arguments: str) -> str:
    command = _fetch_flags.read(["rows.csv", "-o", "geo", *arguments])
    assert command is not None
    return command.retry_flags


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a token, as it is typed in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "s3cret")
    Path("token.txt").write_text("s3cret")
    return "@token.txt"


def test_a_file_is_named_as_it_was_typed_and_other_values_are_left_out(token: str) -> None:
    assert "--bearer @token.txt --json '...'" == needed("--json", '{"id": "{id}"}', "--bearer", token)
    assert "--user '...'" == needed("-u", "me:s3cret")
    assert "--data @token.txt" == needed("-d", token)
    assert "--form '...' --form '...'" == needed("-F", "a=s3cret", "-F", "b={b}")


def test_a_header_keeps_its_name(token: str) -> None:
    headers = ("-H", "X-Key: s3cret", "-H", token.replace("token", "more"), "--header-env", "Cookie=SECRET")
    Path("more.txt").write_text("A: 1\n")
    assert "--header 'X-Key: ...' --header @more.txt --header-env Cookie=SECRET" == needed(*headers)
    assert "--header-template 'X-Tenant: ...'" == needed("--header-template", "X-Tenant: {tenant}")


def test_what_leads_to_the_servers_is_repeated_without_secrets() -> None:
    assert "--cacert 'my ca.pem' --insecure --resolve a:80:192.0.2.1" == needed(
        "-k", "--cacert", "my ca.pem", "--resolve", "a:80:192.0.2.1"
    )
    assert "--proxy http://p:1" == needed("-x", "http://p:1")
    assert "--proxy '...'" == needed("-x", "http://me:s3cret@p:1")
    assert "--http2-prior-knowledge" == needed("--idempotency-key", "--http2-prior-knowledge")


def test_what_the_job_stores_and_what_may_differ_is_not_repeated() -> None:
    stored = ("--url", "http://a/{id}", "-X", "PUT", "--keep", "id", "--network", "public", "--allow-port", "80")
    limits = ("-c", "3", "--rate", "5/s", "--retries", "0", "--timeout", "3s", "--no-insecure")
    assert "" == needed(*stored, *limits)


def test_every_report_that_recommends_a_retry_has_them() -> None:
    flags = "--bearer @token.txt --json '...'"
    command = f"headgate retry geo {flags}"
    job = RESUMED | {"finished": True}

    def summary(**changes: object) -> Summary:
        return Summary.from_json(summary_json(**{"output": "geo", "job": job, **changes}), as_flag)

    assert f"retry failed rows with `{command}`" in _report.report(summary(), as_flag, retry_flags=flags)
    assert (_report.quiet_report(summary(), retry_flags=flags) or "").endswith(f": {command}")
    done = job | {"rows_before": 200_000, "done": 200_000}
    assert f"retry those with `{command}`, or" in _report.report(summary(rows=0, job=done), as_flag, retry_flags=flags)
    stopped = summary(job=RESUMED, stopped_by="more than 10 rows failed")
    assert f"and `{command}` for the failed rows" in _report.report(stopped, as_flag, retry_flags=flags)
    assert f"and `{command}` for" in _report.retry_report(stopped, as_flag, retry_flags=flags)


def test_a_retry_recommends_its_own_flags(token: str) -> None:
    command = _retry_flags.read(["geo", "--bearer", token, "--only", "404", "-c", "3"])
    assert command is not None
    assert "--bearer @token.txt" == command.retry_flags
