"""The objects of a ZEO server: `oid(0)` and the following ones, all of the same size."""

from typing import Final

SIZE: Final = 999
BODY: Final = b"x" * SIZE
TID: Final = b"\x7f" + b"\xff" * 7
"""An ID later than every transaction."""


def oid(number: int) -> bytes:
    """Returns the ID of an object."""
    return number.to_bytes(8, "big")
