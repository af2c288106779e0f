"""The objects that a ZEO server has: `oid(0)` and those that follow, each of as many bytes."""

from typing import Final

SIZE: Final = 999
BODY: Final = b"x" * SIZE
TID: Final = b"\x7f" + b"\xff" * 7
"""Later than every transaction."""


def oid(number: int) -> bytes:
    """Of an object."""
    return number.to_bytes(8, "big")
