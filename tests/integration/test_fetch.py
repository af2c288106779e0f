"""`headgate.fetch`, the same job from Python."""

import gzip
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import headgate
from support.documents import table as documented
from support.results import rows
from support.run import serving, stats


def test_a_job_returns_its_summary(server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    summary = headgate.fetch(f"{server}/[1-10]", tmp_path / "out", concurrency=3)
    assert (10, 10, {200: 10}, False) == (summary.rows, summary.succeeded, summary.statuses, summary.interrupted)
    assert capfd.readouterr() == ("", "")


def test_paths_headers_and_data_may_come_as_python_has_them(server: str, tmp_path: Path) -> None:
    source = tmp_path / "urls.txt"
    source.write_text(f"{server}/echo\n")
    headgate.fetch(source, tmp_path / "out", headers={"x-a": "1"}, data="grün", timeout=10)
    echo = rows(tmp_path / "out")[0]["body"].decode()
    assert '"POST"' in echo
    assert "grün" in echo


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(headgate.UsageError) as raised:
        headgate.fetch("urls.txt", "out", concurrency=0, max_rows=-1)
    assert "max_rows must be at least 1, not -1; concurrency must be at least 1, not 0" == str(raised.value)
    options = [piece.option for piece in raised.value.pieces if not isinstance(piece, str)]
    assert ["max_rows", "concurrency"] == options


def test_that_certificates_were_not_verified_is_noted_with_the_keyword(server: str, tmp_path: Path) -> None:
    summary = headgate.fetch(f"{server}/1", tmp_path / "out", insecure=True)
    (note,) = summary.notes
    assert note.startswith("certificates were not verified (insecure): ")


def test_an_argument_of_the_wrong_type_is_a_usage_error_that_names_it() -> None:
    with pytest.raises(headgate.UsageError) as raised:
        headgate.fetch(5, "out", keep="id", headers={"a": 5}, concurrency=0)  # type: ignore[arg-type] # the mistakes
    assert (
        "input must be a path, text, or a list of them, not int; keep must be a list of columns: write ['id']; "
        "headers must have values that are text: that of 'a' is int; concurrency must be at least 1, not 0"
    ) == str(raised.value)


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("'header': did you mean headers?", "header"),
        ("'time_out': did you mean timeout?", "time_out"),
        ("'xyzzy'", "xyzzy"),
    ],
)
def test_the_error_for_an_unknown_keyword_suggests_the_nearest(expected: str, name: str) -> None:
    arguments: dict[str, Any] = {name: "1"}
    with pytest.raises(TypeError) as raised:
        headgate.fetch("urls.txt", "out", **arguments)
    assert f"fetch() got an unexpected keyword argument {expected}" == str(raised.value)


def test_an_input_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(headgate.InputError, match="no such file") as raised:
        headgate.fetch(tmp_path / "urls.txt", tmp_path / "out")
    assert raised.value.summary is None


def test_an_input_that_breaks_off_brings_the_summary(tmp_path: Path) -> None:
    source = tmp_path / "urls.txt.gz"
    source.write_bytes(gzip.compress(b"http://127.0.0.1:9/\n" * 5000)[:-4])
    with pytest.raises(headgate.InputError, match="cut short") as raised:
        headgate.fetch(source, tmp_path / "out", retries=0, max_failures="never")
    assert str(raised.value).endswith("start over with if_exists='overwrite'")
    assert ("if_exists", "overwrite") == raised.value.pieces[-1]
    assert raised.value.summary is not None
    assert raised.value.summary.rows == 5000


def test_results_are_not_replaced_for_an_input_that_cannot_be_read(server: str, tmp_path: Path) -> None:
    results = tmp_path / "out"
    headgate.fetch(f"{server}/[1-3]", results)
    broken = tmp_path / "urls.txt.gz"
    broken.write_bytes(b"this is no gzip at all")
    with pytest.raises(headgate.InputError):
        headgate.fetch(broken, results, if_exists="overwrite")
    assert len(rows(results)) == 3


def test_a_directory_that_cannot_be_written_is_an_output_error(server: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(headgate.OutputError):
        headgate.fetch(f"{server}/[1-3]", tmp_path / "file")


def test_ctrl_c_ends_the_job_and_brings_the_summary(tmp_path: Path) -> None:
    with serving("--delay", "0.05") as server:

        def interrupt_after_some() -> None:
            while stats(server)["requests"] < 20:
                pass
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt_after_some)
        thread.start()
        with pytest.raises(KeyboardInterrupt) as raised:
            headgate.fetch(f"{server}/[1-100000]", tmp_path / "out", concurrency=5)
        thread.join()
    assert isinstance(raised.value, headgate.Interrupted)
    assert raised.value.summary is not None
    assert 20 <= raised.value.summary.rows == len(rows(tmp_path / "out"))


def test_several_jobs_run_side_by_side(server: str, tmp_path: Path) -> None:
    done: list[int] = []

    def fetch(name: str) -> None:
        done.append(headgate.fetch(f"{server}/[1-200]", tmp_path / name).rows)

    threads = [threading.Thread(target=fetch, args=[name]) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [200, 200, 200] == done


def test_every_kind_of_error_has_a_name_and_a_sentence() -> None:
    # `test_documents.py` tests that this table has the kinds of the engine.
    kinds = documented("docs/results.md", "`error`", "when")
    names = [name.strip("`") for name, _ in kinds]
    assert len(set(names)) == len(names)
    assert {"invalid_request", "dns", "connect", "tls", "timeout", "connection_closed", "protocol"} <= set(names)
    assert [] == [name for name, description in kinds if len(description) < 20]
