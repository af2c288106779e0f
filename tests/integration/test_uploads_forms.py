"""Forms with files: their parts, headers, names and boundaries, by RFC 7578 and the rules of browsers for names."""

import asyncio
import email.message
import email.policy
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from support.receiver import Received, Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def client(receiver: Receiver) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=receiver.url, retry_delay=0.001) as client:
        yield client


def parts_of(received: Received) -> list[tuple[dict[str, str], bytes]]:
    """Returns the headers and the content of each part, by another parser than any of ours."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + received.body, policy=email.policy.HTTP)
    assert message.is_multipart(), received.body
    found = []
    for part in message.iter_parts():
        assert isinstance(part, email.message.Message)
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        found.append(({name: str(value) for name, value in part.items()}, content))
    return found


def test_fields_come_first_and_each_file_has_a_name_and_a_type(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "photo.png").write_bytes(b"png")
    (tmp_path / "data").write_bytes(b"data")
    with (tmp_path / "data").open("rb") as opened:
        files: list[tuple[str, Any]] = [
            ("path", tmp_path / "photo.png"),
            ("file", opened),
            ("bytes", b"bytes"),
            ("text", "text"),
            ("memory", io.BytesIO(b"memory")),
            ("named", ("a.json", b"{}")),
            ("typed", ("a.json", b"{}", "text/x-own")),
            ("headed", ("a.bin", b"1", None, {"X-Part": "1"})),
            ("type in headers", ("a.json", b"{}", None, [("content-type", "text/x-own")])),
            ("no name", (None, b"value")),
            ("twice", b"1"),
            ("twice", b"2"),
        ]
        data = {"text": "ä", "many": [1, 2.5, None, True], "bytes": b"\xff"}
        client.post("/", data=data, files=files)
    received = receiver.last
    assert received.headers["content-length"] == str(len(received.body))

    def part(name: str, content: bytes, file_name: str | None = None, kind: str | None = None, **more: str) -> Any:
        headers = {
            "Content-Disposition": f'form-data; name="{name}"' + (f'; filename="{file_name}"' if file_name else "")
        }
        return headers | more | ({"Content-Type": kind} if kind else {}), content

    binary = "application/octet-stream"
    assert [
        part("text", "ä".encode()),
        part("many", b"1"),
        part("many", b"2.5"),
        part("many", b""),
        part("many", b"true"),
        part("bytes", b"\xff"),
        part("path", b"png", "photo.png", "image/png"),
        part("file", b"data", "data", binary),
        part("bytes", b"bytes", "upload", binary),
        part("text", b"text", "upload", binary),
        part("memory", b"memory", "upload", binary),
        part("named", b"{}", "a.json", "application/json"),
        part("typed", b"{}", "a.json", "text/x-own"),
        part("headed", b"1", "a.bin", binary, **{"X-Part": "1"}),
        part("type in headers", b"{}", "a.json", None, **{"content-type": "text/x-own"}),
        part("no name", b"value"),
        part("twice", b"1", "upload", binary),
        part("twice", b"2", "upload", binary),
    ] == parts_of(received)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ('a "quoted" name', "a %22quoted%22 name"),
        ("line\r\nbreak", "line%0D%0Abreak"),
        ("back\\slash", "back\\slash"),
        ("percent%22", "percent%22"),
        ("Ünï ☃", "Ünï ☃"),
        ("semi; colon=1", "semi; colon=1"),
    ],
)
def test_names_are_quoted_as_browsers_do(name: str, sent: str, client: headgate.Client, receiver: Receiver) -> None:
    client.post("/", files={name: (name, b"x")})
    assert f'Content-Disposition: form-data; name="{sent}"; filename="{sent}"\r\n'.encode() in receiver.last.body


def test_a_content_type_among_the_headers_of_a_file_replaces_its_media_type(
    client: headgate.Client, receiver: Receiver
) -> None:
    client.post("/", files={"f": ("a", b"b", "text/plain", {"Content-Type": "text/csv"})})
    assert [b"Content-Type: text/csv"] == [
        line for line in receiver.requests[-1].body.split(b"\r\n") if line.lower().startswith(b"content-type")
    ]


def test_the_boundary_of_a_header_is_used_and_one_without_is_refused(
    client: headgate.Client, receiver: Receiver
) -> None:
    for header, boundary in [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; boundary="a b"', "a b"),
    ]:
        client.post("/", files={"f": b"x"}, headers={"Content-Type": header})
        assert header == receiver.last.headers["content-type"]
        assert receiver.last.body.startswith(f"--{boundary}\r\n".encode())
        assert receiver.last.body.endswith(f"\r\n--{boundary}--\r\n".encode())
    with pytest.raises(headgate.InvalidRequest, match="this header has none: leave the header out"):
        client.post("/", files={"f": b"x"}, headers={"Content-Type": "multipart/form-data"})


def test_a_form_without_files_is_no_multipart(client: headgate.Client, receiver: Receiver) -> None:
    empty: list[Any] = [{}, []]
    for files in empty:
        client.post("/", data={"a": "b"}, files=files)
        assert ("application/x-www-form-urlencoded", b"a=b") == (
            receiver.last.headers["content-type"],
            receiver.last.body,
        )
    client.post("/", files={})
    assert b"" == receiver.last.body


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": {"f": ("name",)}}, r"a file in a tuple is \(file name, content\), .* not 1 values"),
        ({"files": {"f": ("a", b"b", "c", {}, 1)}}, r"not 5 values"),
        ({"files": {"f": (7, b"b")}}, "the file name can't be int"),
        ({"files": {"f": ("a", b"b", 7)}}, "the media type can't be int"),
        ({"files": {"f": ("a", b"b", None, "x")}}, "the headers of a file must be a mapping or pairs .* not str"),
        ({"files": {"f": ("a", b"b", None, {"X": 1})}}, "the headers of the file 'f' must be names and values in text"),
        ({"files": {"f": ("a", b"b", None, {"X": "1\r\nY: 2"})}}, "a header of the file 'f' can't be sent"),
        ({"files": {"f": ("a", b"b", None, {"X-A: b": "c"})}}, "a header of the file 'f' can't be called 'X-A: b'"),
        ({"files": {"f": ("a", b"b", "text/plain\r\nY: 2")}}, "a header of the file 'f' can't be sent"),
        ({"files": {"f": [b"a", b"b"]}}, "a file can't be list: give several files of one name as pairs"),
        ({"files": {"f": io.StringIO("text")}}, "the file 'f' is a file in text mode: open it in binary mode"),
        ({"files": {"f": None}}, "the file 'f' must be bytes, text, a path, a file or an iterable of bytes, not None"),
        ({"files": {"f": Path("/no/such/file")}}, "no such file"),
        ({"files": b"x"}, "files must be a mapping or pairs"),
        ({"files": {"f": b"x"}, "data": b"x"}, "data must be names and values beside files, not bytes"),
        (
            {"files": {"f": b"x"}, "data": {"a": {"b": 1}}},
            "the field 'a' of data must be text, bytes or a number, not dict",
        ),
        ({"files": {"f": b"x"}, "content": b"x"}, "content and files: a request has one body"),
        ({"files": {"f": b"x"}, "json": 1}, "json and files: a request has one body"),
    ],
)
def test_a_form_that_cannot_be_sent_is_refused(
    arguments: dict[str, Any], message: str, client: headgate.Client, receiver: Receiver
) -> None:
    with pytest.raises(headgate.InvalidRequest, match=message):
        client.post("/", **arguments)
    assert [] == receiver.requests


def test_a_form_with_a_stream_has_a_length_if_all_parts_have_one(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    class Sized(io.BytesIO):
        """A file that Python reads."""

    (tmp_path / "file").write_bytes(b"file")
    with (tmp_path / "file").open("rb") as opened:
        parts: dict[str, Any] = {"path": tmp_path / "file", "file": opened, "sized": Sized(b"sized"), "bytes": b"bytes"}
        client.post("/", files=parts)
    received = receiver.last
    assert received.headers["content-length"] == str(len(received.body))
    assert [b"file", b"file", b"sized", b"bytes"] == [content for _, content in parts_of(received)]
    parts = {"path": tmp_path / "file", "stream": iter((b"one", b"two"))}
    client.post("/", files=parts)
    assert "chunked" == receiver.last.headers["transfer-encoding"]
    assert [b"file", b"onetwo"] == [content for _, content in parts_of(receiver.last)]


def test_a_form_is_sent_a_second_time_only_if_all_of_it_can_be(
    client: headgate.Client, receiver: Receiver, tmp_path: Path
) -> None:
    class Sized(io.BytesIO):
        """A file that Python reads."""

    (tmp_path / "file").write_bytes(b"file")
    parts: dict[str, Any] = {"path": tmp_path / "file", "sized": Sized(b"sized")}
    response = client.put("/status/503", files=parts)
    assert (200, 2) == (response.status_code, response.attempts)
    assert [b"file", b"sized"] == [content for _, content in parts_of(receiver.last)]
    assert 502 == client.put("/status/502", files={**parts, "stream": iter((b"x",))}).status_code


def test_a_form_may_have_asynchronous_parts(receiver: Receiver, tmp_path: Path) -> None:
    async def made() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def main() -> None:
        async with headgate.AsyncClient(base_url=receiver.url) as client:
            parts: dict[str, Any] = {"stream": made(), "path": tmp_path / "file"}
            await client.post("/", data={"a": "b"}, files=parts)

    (tmp_path / "file").write_bytes(b"file")
    asyncio.run(main())
    assert [b"b", b"onetwo", b"file"] == [content for _, content in parts_of(receiver.last)]
