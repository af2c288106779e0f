"""Requests that are made of columns: a server that isn't ours decodes them to the values of the cells."""

import datetime as dt
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from support.origin import changing
from support.results import rows
from support.run import headgate, started, wait_for

NASTY = [
    "plain",
    "a/b",
    "../../etc/passwd",
    "..a",
    "%2e%2e",
    "%252F",
    "?q=1&r=2#f",
    "a+b c",
    "quotes \"' `",
    "line\r\nX-Evil: 1",
    "tab\tNUL\x00ESC\x1b",
    "ünïcödé 中文",
    "👩‍👩‍👧 emoji",
    "back\\slash\\..",
    "{braces}",
    "@/etc/passwd",
    "; DROP TABLE",
    "boundary\r\n--",
]
MESSAGES = '"messages": [{"role": "user", "content": "{text}"}]'
JSON = '{"model": "x", ' + MESSAGES + ', "said": "<{text}>", "big": 1.0000000000000000001}'


class _Recorder(BaseHTTPRequestHandler):
    """Decodes requests with the standard library."""

    server: "_Server"

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        self.server.seen.append({"line": self.path, "headers": self.headers, "body": body})
        self.send_response(304 if self.headers.get("if-none-match") == '"same"' else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Recorder)
        self.seen: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def recording() -> Iterator[_Server]:
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def written(form: str, directory: Path, columns: dict[str, Any]) -> Path:
    path = directory / f"rows.{form}"
    table = pa.table(columns)
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "csv":
        pa_csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


def numbered(seen: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Returns the requests by the number that each has in a header."""
    found = {int(each["headers"]["x-row"]): each for each in seen}
    assert len(found) == len(seen)
    return found


def fetch(source: Path, output: Path, *flags: str) -> list[dict[str, Any]]:
    headgate("fetch", source, "-o", output, "--header-template", "X-Row: {row}", *flags)
    return rows(output)


FORMS = pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])


@FORMS
def test_a_server_decodes_urls_to_the_values_of_the_cells(form: str, tmp_path: Path) -> None:
    columns = {"row": list(range(len(NASTY))), "text": NASTY}
    with recording() as server:
        template = server.url + "/x/{text}/y?q={text}&z=1"
        results = fetch(written(form, tmp_path, columns), tmp_path / "out", "--url", template)
        seen = numbered(server.seen)
    assert [200] * len(NASTY) == [result["status"] for result in results]
    for row, text in enumerate(NASTY):
        path, _, query = seen[row]["line"].partition("?")
        assert ["", "x", text, "y"] == [urllib.parse.unquote(segment) for segment in path.split("/")]
        assert {"q": [text], "z": ["1"]} == urllib.parse.parse_qs(query)
        assert results[row]["url"].startswith(server.url + "/x/")


@FORMS
def test_a_server_decodes_json_to_the_values_of_the_cells(form: str, tmp_path: Path) -> None:
    columns = {"row": list(range(len(NASTY))), "text": NASTY}
    with recording() as server:
        fetch(written(form, tmp_path, columns), tmp_path / "out", "--url", server.url, "--json", JSON)
        seen = numbered(server.seen)
    for row, text in enumerate(NASTY):
        assert "application/json" == seen[row]["headers"]["content-type"]
        body = json.loads(seen[row]["body"], parse_float=str)
        assert {
            "model": "x",
            "messages": [{"role": "user", "content": text}],
            "said": f"<{text}>",
            "big": "1.0000000000000000001",
        } == body


@FORMS
def test_a_server_decodes_forms_to_the_values_of_the_cells(form: str, tmp_path: Path) -> None:
    columns = {"row": list(range(len(NASTY))), "text": NASTY}
    source = written(form, tmp_path, columns)
    with recording() as server:
        fields = ("--data-urlencode", "a={text}", "--data-urlencode", "b=1&{row}")
        fetch(source, tmp_path / "urlencoded", "--url", server.url, *fields)
        urlencoded = numbered(server.seen)
        server.seen.clear()
        fetch(source, tmp_path / "multipart", "--url", server.url, "-F", "a={text}", "-F", "b=1&{row};type=text/plain")
        multipart = numbered(server.seen)
    for row, text in enumerate(NASTY):
        assert "application/x-www-form-urlencoded" == urlencoded[row]["headers"]["content-type"]
        pairs = urllib.parse.parse_qsl(urlencoded[row]["body"].decode(), strict_parsing=True)
        assert [("a", text), ("b", f"1&{row}")] == pairs
        head = f"Content-Type: {multipart[row]['headers']['content-type']}\r\n\r\n".encode()
        parts = list(BytesParser(policy=HTTP).parsebytes(head + multipart[row]["body"]).iter_parts())
        assert ["a", "b"] == [part.get_param("name", header="content-disposition") for part in parts]
        assert [text.encode(), f"1&{row}".encode()] == [part.get_payload(decode=True) for part in parts]


@FORMS
def test_a_header_arrives_as_it_is_or_its_row_is_refused(form: str, tmp_path: Path) -> None:
    columns = {"row": list(range(len(NASTY))), "text": NASTY}
    with recording() as server:
        flags = ("--url", server.url, "--header-template", "X-Text: {text}")
        results = fetch(written(form, tmp_path, columns), tmp_path / "out", *flags)
        seen = numbered(server.seen)
    for row, text in enumerate(NASTY):
        if any(letter < " " and letter != "\t" for letter in text):
            assert row not in seen
            assert "invalid_request" == results[row]["error"]
            assert results[row]["error_message"].startswith('the header "X-Text" has a character that can\'t be sent')
        else:
            assert text == seen[row]["headers"]["x-text"].encode("latin-1").decode()
            assert seen[row]["headers"]["x-evil"] is None


def test_values_of_parquet_and_ndjson_keep_their_types(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "text": ["x", None],
        "big": pa.array([2**64 - 1, None], pa.uint64()),
        "real": [0.1, None],
        "flag": [True, None],
        "items": [[1, None, 3], []],
        "nested": [{"a": {"b": ['"', "ü"]}, "c": None}, None],
        "day": [dt.date(2026, 5, 14), None],
        "time": [dt.datetime(2026, 5, 14, 9, 30, tzinfo=dt.UTC), None],
    }
    template = json.dumps({name: f"{{{name}}}" for name in values} | {"{row}": "{big:string|none}"})
    as_json: list[dict[str, Any]] = [
        {"text": "x", "big": 2**64 - 1, "real": 0.1, "flag": True, "items": [1, None, 3]}
        | {"nested": {"a": {"b": ['"', "ü"]}, "c": None}, "day": "2026-05-14", "time": "2026-05-14T09:30:00Z"},
        {"text": None, "big": None, "real": None, "flag": None, "items": [], "nested": None, "day": None, "time": None},
    ]
    ndjson = tmp_path / "rows.ndjson"
    ndjson.write_text("".join(json.dumps(row | {"row": number}) + "\n" for number, row in enumerate(as_json)))
    for source in (written("parquet", tmp_path, {"row": [0, 1], **values}), ndjson):
        with recording() as server:
            fetch(source, tmp_path / f"out-{source.suffix[1:]}", "--url", server.url, "--json", template)
            seen = numbered(server.seen)
        assert [as_json[0] | {"0": str(2**64 - 1)}, as_json[1] | {"1": "none"}] == [
            json.loads(seen[row]["body"]) for row in (0, 1)
        ]


def test_a_value_that_no_encoding_can_carry_makes_its_row_invalid_and_the_rest_are_sent(tmp_path: Path) -> None:
    columns = {"row": list(range(4)), "id": ["..", ".", None, "fine"]}
    with recording() as server:
        template = server.url + "/items/{id}"
        results = fetch(written("parquet", tmp_path, columns), tmp_path / "out", "--url", template)
        assert ["/items/fine"] == [each["line"] for each in server.seen]
    dots = 'the column "id" can\'t be part of a path segment that is then . or .., which would change the path'
    errors = [(result["error"], result["error_message"]) for result in results]
    assert [("invalid_request", dots)] * 2 + [
        ("invalid_request", 'the column "id" has no value; {id|} sends an empty one'),
        (None, None),
    ] == errors


def test_a_second_pass_fetches_only_what_has_changed(tmp_path: Path) -> None:
    columns = {
        "row": [0, 1, 2],
        "etag": ['"same"', '"other"', None],
        "seen": [dt.datetime(2026, 5, 14, 9, 30, tzinfo=dt.UTC), None, None],
    }
    source = written("parquet", tmp_path, columns)
    flags = ("--if-none-match-column", "etag", "--if-modified-since-column", "seen")
    with recording() as server:
        results = fetch(source, tmp_path / "out", "--url", server.url + "/{row}", *flags)
        seen = numbered(server.seen)
    names = ("if-none-match", "if-modified-since")
    assert [('"same"', "Thu, 14 May 2026 09:30:00 GMT"), ('"other"', None), (None, None)] == [
        tuple(seen[row]["headers"][name] for name in names) for row in range(3)
    ]
    assert [(304, None), (200, None), (200, None)] == [(result["status"], result["error"]) for result in results]


def test_a_job_is_resumed_and_retried_with_the_same_templates_only(tmp_path: Path) -> None:
    source = written("csv", tmp_path, {"row": [0, 1, 2], "id": ["a", "b", "c"]})
    output = tmp_path / "out"
    flags = ("--json", '{"secret": "s3cret", "id": "{id}"}', "--header-template", "X-Row: {row}")
    with recording() as server:
        url = ("--url", server.url + "/{id}")
        headgate("fetch", source, "-o", output, *url, *flags, "--fail-on", "200")
        stored = "".join(path.read_text() for path in (output / "_headgate").glob("*.json"))
        assert "s3cret" not in stored
        other = headgate("fetch", source, "-o", output, *url, "--json", '["{id}"]', "--fail-on", "200")
        assert "--json has changed" in other.stderr
        server.seen.clear()
        headgate("retry", output, *flags)
        bodies = {row: json.loads(each["body"]) for row, each in numbered(server.seen).items()}
    assert {row: {"secret": "s3cret", "id": text} for row, text in enumerate("abc")} == bodies


def test_a_retried_row_has_the_same_form_and_no_other_row_or_job_has_its_boundary(tmp_path: Path) -> None:
    Path(tmp_path, "rows.csv").write_text("id\n1\n2\n3\n")
    with changing() as origin:
        flags = ("--url", origin.url + "/{id}", "-F", "id=x", "--retries", "0", "-q", "-c", "1")
        command = ("fetch", tmp_path / "rows.csv", "-o", tmp_path / "out", *flags)
        origin.held.add("/2")
        with started(*command) as process:
            wait_for(lambda: "/2" in origin.keys)
            process.kill()
            process.wait()
        origin.held.clear()
        origin.released.set()
        origin.statuses["/2"] = 503
        headgate(*command, check=3)
        headgate("retry", tmp_path / "out", "-F", "id=x", "-q", check=3)
        bodies = [(path, body) for _, path, _, body in origin.requests]
        assert 3 == len([path for path, _ in bodies if path == "/2"])
        assert 3 == len(set(bodies)), bodies
        assert 3 == len({body for _, body in bodies})
        for _ in range(2):
            headgate("fetch", tmp_path / "rows.csv", "-o", "-", *flags, check=3)
        assert 9 == len({body for *_, body in origin.requests})


def test_a_plan_shows_requests_as_they_would_be_sent(tmp_path: Path) -> None:
    source = written("csv", tmp_path, {"row": [0], "text": ["a/b"]})
    flags = ("--url", "http://127.0.0.1:9/{text}", "--json", '{"t": "{text}", "n": "{row}"}')
    more = ("--header-template", "X-Row: {row}", "--header-template", "Authorization: Bearer {text}")
    plan = json.loads(headgate("plan", source, "--as-json", *flags, *more, check=0).stdout)
    request = plan["requests"][0]
    assert ("http://127.0.0.1:9/a%2Fb", "POST /a%2Fb HTTP/1.1") == (request["url"], request["line"])
    assert '{"t": "a/b", "n": "0"}' == request["body"]["text"]
    headers = dict(request["headers"])
    assert ("0", "***", "application/json") == tuple(
        headers[name] for name in ("X-Row", "Authorization", "content-type")
    )


def test_all_columns_that_are_missing_are_refused_with_those_there_are(tmp_path: Path) -> None:
    source = written("csv", tmp_path, {"row": [0], "text": ["a"]})
    arguments = ["--url", "http://h/{id}?also={id}", "--body-column", "b", "--keep", "row,nr"]
    done = headgate("fetch", source, "-o", tmp_path / "out", *arguments, check=2)
    missing = '"id" for --url; there is no column "b" for --body-column; there is no column "nr" to keep'
    assert [f'{source}: there is no column {missing}; the columns are "row", "text"'] == done.errors()
    assert not (tmp_path / "out").exists()
