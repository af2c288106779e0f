"""The fields and files of a form in the body of a request."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from headgate.client._headers import Headers
from headgate.client._multipart import BOUNDARY

_URLENCODED: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_PARAMETER: Final = re.compile(r';\s*(name|filename)="([^"]*)"', re.IGNORECASE)


class MockFile(NamedTuple):
    """A file of a form that a mock received.

    >>> with headgate.testing.mock() as server:
    ...     route = server.post("/photos")
    ...     response = client.post("/photos", data={"title": "cat"}, files={"photo": ("cat.png", b"...", "image/png")})
    >>> request = route.calls[0].request
    >>> request.form, request.files["photo"]
    ({'title': ['cat']}, [MockFile(name='cat.png', content=b'...', content_type='image/png')])

    Attributes:
        name: The file name.
        content: The content.
        content_type: The media type; empty if there is none.
    """

    name: str
    content: bytes
    content_type: str


MockFile.__module__ = "headgate.testing"


class Form(NamedTuple):
    """The fields and the files of a form, with all values of each name."""

    fields: dict[str, list[str]]
    files: dict[str, list[MockFile]]


def form_of(content_type: str, content: bytes) -> Form:
    """Returns the form in a body; it is empty if the body is none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == _URLENCODED:
        return Form(parse_qs(content.decode(errors="replace"), keep_blank_values=True), {})
    form = Form({}, {})
    boundary = BOUNDARY.search(content_type) if kind == _MULTIPART else None
    if boundary is not None:
        delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode()
        # The first part has no line end before it; behind the last one, there are two hyphens.
        for part in (b"\r\n" + content).split(delimiter)[1:-1]:
            _add_part(form, part)
    return form


def _add_part(form: Form, part: bytes) -> None:
    fields, _, content = part.partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in fields.decode(errors="replace").split("\r\n"))
    headers = Headers((name, value.strip()) for name, _, value in lines if name)
    given = {
        name.lower(): _unescaped(text) for name, text in _PARAMETER.findall(headers.get("content-disposition", ""))
    }
    name = given.get("name", "")
    if "filename" in given:
        file = MockFile(given["filename"], content, headers.get("content-type", ""))
        form.files.setdefault(name, []).append(file)
    else:
        form.fields.setdefault(name, []).append(content.decode(errors="replace"))


def _unescaped(text: str) -> str:
    """Returns text without the escapes of browsers: https://html.spec.whatwg.org/#multipart-form-data."""
    return re.sub("%(22|0D|0A)", lambda escape: unquote_to_bytes(escape[0]).decode(), text)
