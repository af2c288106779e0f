"""A job is refused before it begins if its results can't be written there or its input can't be read."""

from pathlib import Path

import pytest

import headgate
from support.run import headgate as command

LOCAL = "results are written to a local directory, not to s3://: name one, and upload it when the job has finished"
FILE = "results are a directory of files, and this is the name of a file: use"


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (f"-o s3://bucket/x: {LOCAL}", "s3://bucket/x"),
        (f"-o out.parquet: {FILE} -o out", "out.parquet"),
        (f"-o a/out.jsonl: {FILE} -o a/out", "a/out.jsonl"),
    ],
)
def test_a_path_that_is_no_directory_is_refused_and_not_made(
    expected: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [expected] == command("fetch", "http://127.0.0.1:1/[1-3]", "-o", output, check=2).errors()
    with pytest.raises(headgate.UsageError, match="results are"):
        headgate.fetch("http://127.0.0.1:1/[1-3]", output)
    assert [] == list(tmp_path.iterdir())


def test_a_job_in_a_directory_with_such_a_name_is_resumed(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    out.mkdir()
    command("fetch", f"{server}/[1-3]", "-o", out, check=0)
    assert "finished already: 3 rows done" in command("fetch", f"{server}/[1-3]", "-o", out, check=0).stderr


@pytest.mark.parametrize("url", ["s3://bucket/urls.txt", "ftp://a.example/[1-3]", "file:///etc/hosts"])
def test_an_input_of_another_scheme_is_refused_as_such(url: str, tmp_path: Path) -> None:
    expected = (
        f"{url}: only http:// and https:// URLs can be fetched; to read a list of URLs, give the path of a local file, "
        "or pipe its lines into -"
    )
    assert [expected] == command("fetch", url, "-o", tmp_path / "out", check=2).errors()
    with pytest.raises(headgate.InputError, match="only http:// and https://"):
        headgate.fetch(url, tmp_path / "out")
    assert not (tmp_path / "out").exists()
