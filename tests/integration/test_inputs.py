"""Every form of input, and every defect that it can have."""

import base64
import gzip
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from support.origin import changing
from support.results import rows, table
from support.run import headgate

ROWS = 300


def write_txt(path: Path, urls: list[str]) -> None:
    path.write_text("".join(f"{url}\n" for url in urls))


def write_csv(path: Path, urls: list[str]) -> None:
    path.write_text("id,url\n" + "".join(f'{row},"{url}"\n' for row, url in enumerate(urls)))


def write_tsv(path: Path, urls: list[str]) -> None:
    path.write_text("id\turl\n" + "".join(f"{row}\t{url}\n" for row, url in enumerate(urls)))


def write_ndjson(path: Path, urls: list[str]) -> None:
    path.write_text("".join(json.dumps({"id": row, "url": url}) + "\n" for row, url in enumerate(urls)))


def write_parquet(path: Path, urls: list[str]) -> None:
    pq.write_table(pa.table({"id": list(range(len(urls))), "url": urls}), path, row_group_size=100)


def gzipped(write: Callable[[Path, list[str]], None]) -> Callable[[Path, list[str]], None]:
    def write_compressed(path: Path, urls: list[str]) -> None:
        write(path, urls)
        path.write_bytes(gzip.compress(path.read_bytes()))

    return write_compressed


def zstandard_csv(path: Path, urls: list[str]) -> None:
    pl.DataFrame({"id": range(len(urls)), "url": urls}).write_csv(path, compression="zstd")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("urls.txt", write_txt),
        ("rows.csv", write_csv),
        ("rows.tsv", write_tsv),
        ("rows.ndjson", write_ndjson),
        ("rows.jsonl", write_ndjson),
        ("rows.parquet", write_parquet),
        ("urls.txt.gz", gzipped(write_txt)),
        ("rows.csv.gz", gzipped(write_csv)),
        ("rows.ndjson.gz", gzipped(write_ndjson)),
        ("rows.csv.zst", zstandard_csv),
    ],
)
def test_each_form_gives_its_rows_in_order(
    name: str, write: Callable[[Path, list[str]], None], server: str, tmp_path: Path
) -> None:
    urls = [f"{server}/{row}" for row in range(ROWS)]
    write(tmp_path / name, urls)
    headgate("fetch", tmp_path / name, "-o", tmp_path / "out", check=0)
    assert urls == table(tmp_path / "out")["url"].to_pylist()


def test_standard_input_gives_lines(server: str, tmp_path: Path) -> None:
    headgate("fetch", "-", "-o", tmp_path / "out", stdin=f"{server}/a\n{server}/b", check=0)
    assert [f"{server}/a", f"{server}/b"] == table(tmp_path / "out")["url"].to_pylist()


@pytest.mark.parametrize(
    ("expected", "pattern"),
    [
        (["/1", "/2", "/3"], "/[1-3]"),
        (["/08", "/09", "/10"], "/[08-10]"),
        (["/1", "/6"], "/[1-10:5]"),
        (["/a/1", "/a/2", "/b/1", "/b/2"], "/{a,b}/[1-2]"),
    ],
)
def test_ranges_and_sets_are_those_of_curl(expected: list[str], pattern: str, server: str, tmp_path: Path) -> None:
    headgate("fetch", server + pattern, "-o", tmp_path / "out", check=0)
    assert [server + path for path in expected] == table(tmp_path / "out")["url"].to_pylist()


def test_rows_bring_their_own_method_headers_and_body(server: str) -> None:
    source = [{"url": f"{server}/echo", "method": "PUT", "headers": {"x-a": ["1", "2"]}, "body": "hello"}]
    columns = ["--method-column", "method", "--headers-column", "headers", "--body-column", "body"]
    with_options = [*columns, "-H", "x-a: default", "-H", "x-b: 3", "-X", "PATCH"]
    done = fetch_ndjson(source, *with_options)
    echo = json.loads(done["body"])
    headers = [(name.lower(), value) for name, value in echo["headers"]]
    assert ("PUT", "hello") == (echo["method"], echo["body"])
    assert ["1", "2"] == [value for name, value in headers if name == "x-a"]
    assert ("x-b", "3") in headers


def test_rows_that_bring_nothing_take_the_options(server: str) -> None:
    done = fetch_ndjson([{"url": f"{server}/echo"}], "-d", "hello", "-H", "x-a: 1", "--user-agent", "me/1")
    echo = json.loads(done["body"])
    headers = {name.lower(): value for name, value in echo["headers"]}
    assert ("POST", "hello") == (echo["method"], echo["body"])
    assert ("1", "me/1") == (headers["x-a"], headers["user-agent"])


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fetch_ndjson(source: Sequence[Mapping[str, object]], *flags: str) -> dict[str, str]:
    Path("rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in source))
    row: dict[str, str] = headgate("fetch", "rows.ndjson", "-o", "-", *flags, check=0).rows()[0]
    return row


# Inputs that can't be read at all: exit code 2, one message that names the file, nothing written.


def write_directory(path: Path) -> None:
    path.mkdir()


def write_foreign(path: Path) -> None:
    path.write_text("http://127.0.0.1/\n")


def write_without_url(path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"id": [1], "link": ["http://127.0.0.1/"]}), path)
    else:
        path.write_text("id,link\n1,http://127.0.0.1/\n")


@pytest.mark.parametrize(
    ("expected", "name", "write"),
    [
        (["no such file"], "urls.txt", None),
        (["no such file"], "rows.parquet", None),
        (["no file in this directory", ".ndjson"], "urls.txt", write_directory),
        (["unknown extension", ".ndjson"], "urls.xlsx", write_foreign),
        (["unknown extension", ".ndjson"], "urls", write_foreign),
        (['"url"', '"id", "link"', "--url-column"], "rows.csv", write_without_url),
        (['"url"', '"id", "link"', "--url-column"], "rows.parquet", write_without_url),
        (["rows.parquet"], "rows.parquet", write_foreign),
    ],
)
def test_an_unreadable_input_is_named_with_what_is_wrong(
    expected: list[str], name: str, write: Callable[[Path], None] | None
) -> None:
    if write is not None:
        write(Path(name))
    done = headgate("fetch", name, "-o", "out", check=2)
    (message,) = done.errors()
    assert message.startswith(f"{name}: ")
    assert [] == [part for part in expected if part not in message], message
    assert not list(Path().glob("out/*.parquet"))


@pytest.mark.parametrize("pattern", ["/[1-", "/[3-1]", "/{a,b"])
def test_a_broken_range_is_named(pattern: str, server: str) -> None:
    done = headgate("fetch", server + pattern, "-o", "out", check=2)
    assert server + pattern in done.errors()[0]


# Inputs with bad rows: the row fails, the job continues.


@pytest.mark.parametrize("name", ["empty.txt", "empty.ndjson"])
def test_an_empty_file_is_a_finished_job_of_no_rows(name: str) -> None:
    Path(name).write_bytes(b"")
    headgate("fetch", name, "-o", "out", "--summary", "s.json", check=0)
    assert json.loads(Path("s.json").read_text())["rows"] == 0


def test_crlf_a_byte_order_mark_and_blank_lines_do_not_matter(server: str) -> None:
    Path("urls.txt").write_bytes(b"\xef\xbb\xbf" + f"{server}/1\r\n\r\n  \r\n{server}/2\r\n".encode())
    headgate("fetch", "urls.txt", "-o", "out", check=0)
    assert [f"{server}/1", f"{server}/2"] == table(Path("out"))["url"].to_pylist()


BIG = 10 * 1024 * 1024
BAD_ROWS: list[tuple[str, str, bytes]] = [
    ("ragged CSV", "rows.csv", b"url,id\nSERVER/1,1\nSERVER/2\nSERVER/3,3\n"),
    ("an NDJSON line that is no object", "rows.ndjson", b'{"url":"SERVER/1"}\n[1]\n{"url":"SERVER/3"}\n'),
    ("an NDJSON line that is no JSON", "rows.ndjson", b'{"url":"SERVER/1"}\n{"url":\n{"url":"SERVER/3"}\n'),
    ("broken UTF-8", "urls.txt", b"SERVER/1\nSERVER/\xff\nSERVER/3\n"),
    ("a line of 10 MB", "urls.txt", b"SERVER/1\nSERVER/" + b"x" * BIG + b"\nSERVER/3\n"),
    ("no URL", "urls.txt", b"SERVER/1\nhttp://[::1/\nSERVER/3\n"),
    ("another scheme", "urls.txt", b"SERVER/1\nftp://127.0.0.1/\nSERVER/3\n"),
    ("a bad method", "rows.csv", b"url,method\nSERVER/1,GET\nSERVER/2,GE T\nSERVER/3,GET\n"),
    (
        "a header with CR and LF",
        "rows.ndjson",
        b'{"url":"SERVER/1"}\n{"url":"SERVER/2","headers":{"a":"b\\r\\nc: d"}}\n{"url":"SERVER/3"}\n',
    ),
    (
        "headers that are no object",
        "rows.ndjson",
        b'{"url":"SERVER/1"}\n{"url":"SERVER/2","headers":1}\n{"url":"SERVER/3"}\n',
    ),
]


@pytest.mark.parametrize(("name", "content"), [row[1:] for row in BAD_ROWS], ids=[row[0] for row in BAD_ROWS])
def test_a_bad_row_is_an_invalid_request_and_the_job_continues(name: str, content: bytes, server: str) -> None:
    Path(name).write_bytes(content.replace(b"SERVER", server.encode()))
    named = [column for column in ("method", "headers") if column.encode() in content]
    flags = [flag for column in named for flag in (f"--{column}-column", column)]
    headgate("fetch", name, "-o", "out", *flags, check=3)
    found = rows(Path("out"))
    assert [(0, None, 200), (1, "invalid_request", None), (2, None, 200)] == [
        (row["row"], row["error"], row["status"]) for row in found
    ]
    assert found[1]["error_message"]
    assert found[1]["attempts"] == 0


def test_a_truncated_gzip_keeps_the_rows_before_it(server: str) -> None:
    urls = "".join(f"{server}/{row}\n" for row in range(2_000)).encode()
    Path("urls.txt.gz").write_bytes(gzip.compress(urls)[:-2_000])
    done = headgate("fetch", "urls.txt.gz", "-o", "out", "--summary", "s.json", check=2)
    (message,) = done.errors()
    assert message.startswith("urls.txt.gz: cut short")
    summary = json.loads(Path("s.json").read_text())
    found = table(Path("out"))["url"].to_pylist()
    assert 0 < len(found) < 2_000
    assert [f"{server}/{row}" for row in range(len(found))] == found
    assert (len(found), "input", message) == (summary["rows"], *summary["failure"].values())


@pytest.mark.parametrize("zeros", [1, 10_000])
def test_a_gzip_file_that_is_filled_up_with_zeros_is_read_whole(zeros: int, server: str) -> None:
    Path("urls.txt.gz").write_bytes(gzip.compress(f"{server}/1\n{server}/2\n".encode()) + bytes(zeros))
    headgate("fetch", "urls.txt.gz", "-o", "out", check=0)
    assert [f"{server}/1", f"{server}/2"] == table(Path("out"))["url"].to_pylist()


def test_bytes_after_gzip_data_are_named_with_their_offset_and_the_rows_before_them_are_kept(server: str) -> None:
    data = gzip.compress(f"{server}/1\n{server}/2\n".encode())
    Path("urls.txt.gz").write_bytes(data + b"<html>")
    done = headgate("fetch", "urls.txt.gz", "-o", "out", check=2)
    (message,) = done.errors()
    assert message.startswith(
        "urls.txt.gz: the last 6 bytes are not gzip data, after the end of the gzip data, at byte "
    )
    assert f"(head -c {len(data)})" in message
    assert [f"{server}/1", f"{server}/2"] == table(Path("out"))["url"].to_pylist()


@pytest.mark.parametrize("name", ["urls.txt.gz", "urls.txt.zst"])
def test_a_compressed_file_of_no_bytes_does_not_replace_results(name: str, server: str) -> None:
    headgate("fetch", f"{server}/[1-3]", "-o", "out", check=0)
    Path(name).write_bytes(b"")
    done = headgate("fetch", name, "-o", "out", "--if-exists", "overwrite", "-y", check=2)
    assert done.errors()[0].startswith(f"{name}: empty: ")
    assert table(Path("out")).num_rows == 3


class Keys(encryption.KmsClient):  # type: ignore[misc]  # pyarrow has no types
    """Keeps nothing secret."""

    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("column", ["id", "url"])
@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_encrypted_parquet_is_called_that_unless_only_other_columns_are(
    plaintext_footer: bool, column: str, server: str
) -> None:
    configuration = encryption.EncryptionConfiguration(
        footer_key="key", column_keys={"key": [column]}, plaintext_footer=plaintext_footer
    )
    factory = encryption.CryptoFactory(Keys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
    columns = pa.table({"id": [1], "url": [f"{server}/1"]})
    with pq.ParquetWriter("rows.parquet", columns.schema, encryption_properties=properties) as writer:
        writer.write_table(columns)
    code = 2 if not plaintext_footer or column == "url" else 0
    done = headgate("fetch", "rows.parquet", "-o", "out", check=code)
    message = "rows.parquet: encrypted Parquet, which headgate can't decrypt: write it without encryption"
    assert ([message] if code else []) == done.errors()


# Inputs that are written to while they are read.

LONG = "x" * 2_000
MANY = 3_000


def write_long_rows(server: str) -> bytes:
    """The length of lines of which a batch takes many reads."""
    content = "url,filler\n" + "".join(f"{server}/{row},{LONG}\n" for row in range(MANY))
    Path("rows.csv").write_text(content)
    os.utime("rows.csv", (1_000_000_000, 1_000_000_000))
    return content.encode()


def test_an_input_that_was_cut_off_is_an_error_and_the_job_resumes_when_it_is_restored() -> None:
    with changing(first=lambda: os.truncate("rows.csv", Path("rows.csv").stat().st_size // 2)) as origin:
        content = write_long_rows(origin.url)
        command = ["fetch", "rows.csv", "-o", "out", "-c", "1", "--read-ahead", "1"]
        (message,) = headgate(*command, check=2).errors()
        assert message.startswith("rows.csv: truncated while it was read: it had ")
        assert message.endswith("; restore the file to resume, or start over with --if-exists overwrite")
        status = json.loads(headgate("status", "out", "--as-json", check=6).stdout)
        found = table(Path("out"))["url"].to_pylist()
        assert (False, len(found)) == (status["finished"], status["done"])
        assert 0 < len(found) < MANY
        assert [f"{origin.url}/{row}" for row in range(len(found))] == found
        Path("rows.csv").write_bytes(content)
        os.utime("rows.csv", (1_000_000_000, 1_000_000_000))
        headgate(*command[:4], "-c", "4", check=0)  # the origin has a short queue of connections
        assert [f"{origin.url}/{row}" for row in range(MANY)] == table(Path("out"))["url"].to_pylist()


def test_an_input_that_grows_ends_where_it_did_and_a_note_says_so() -> None:
    def grow() -> None:
        with Path("rows.csv").open("a") as file:
            file.write("http://127.0.0.1:1/late,\n" * 93)

    with changing(first=grow) as origin:
        size = len(write_long_rows(origin.url))
        done = headgate("fetch", "rows.csv", "-o", "out", "-c", "1", "--read-ahead", "1", check=0)
    assert f"note: rows.csv grew while it was read, from {size:,} to " in done.stderr
    assert [f"{origin.url}/{row}" for row in range(MANY)] == table(Path("out"))["url"].to_pylist()


# Outputs that are refused.


def test_a_directory_of_another_program_is_left_unchanged(server: str) -> None:
    Path("out").mkdir()
    Path("out/thesis.tex").write_text("chapter 1")
    done = headgate("fetch", f"{server}/[1-3]", "-o", "out", "--if-exists", "overwrite", check=2)
    assert "out is not empty" in done.errors()[0]
    assert ["thesis.tex"] == [path.name for path in Path("out").iterdir()]


@pytest.mark.parametrize("directory", ["a-file", "a-file/out", "/proc/headgate"])
def test_an_unwritable_directory_is_named(directory: str, server: str) -> None:
    Path("a-file").write_text("")
    done = headgate("fetch", f"{server}/[1-3]", "-o", directory, check=2)
    assert directory in done.errors()[0]


def test_no_concurrency_is_refused() -> None:
    done = headgate("fetch", "urls.txt", "-o", "out", "-c", "0", check=2)
    assert ["--concurrency must be at least 1, not 0"] == done.errors()
