"""How the text of a body is encoded."""

import codecs
from collections.abc import Mapping
from email.message import Message as MediaType
from typing import Final

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MARK_BYTES: Final = 4
"""The longest byte order mark."""


def told_encoding(headers: Mapping[str, str]) -> str | None:
    """The encoding that the content-type names, if it names one that there is."""
    media_type = MediaType()
    media_type["content-type"] = headers.get("content-type", "")
    told = media_type.get_param("charset")
    if isinstance(told, str):
        try:
            return codecs.lookup(told.strip("'\" ")).name
        except LookupError:
            pass
    return None


def marked_encoding(beginning: bytes) -> str:
    """The encoding that a byte order mark tells of, or else UTF-8."""
    return next((name for mark, name in _BOMS if beginning.startswith(mark)), "utf-8")
