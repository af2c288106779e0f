"""Replaces the path of the checkout in the SBOM of wheels: `make dist-wheel`.

usage: neutral_sbom.py WHEEL ...
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def neutral(root: Path, wheel: Path) -> None:
    """Writes the wheel anew, with an SBOM whose paths are relative to the checkout."""
    with zipfile.ZipFile(wheel) as opened:
        content = {entry: opened.read(entry) for entry in opened.infolist()}
    (record,) = (entry for entry in content if entry.filename.endswith(".dist-info/RECORD"))
    lines = content[record].decode().splitlines()
    for entry, data in content.items():
        if ".dist-info/sboms/" in entry.filename:
            content[entry] = sbom = data.replace(f"{root}/".encode(), b"")
            digest = base64.urlsafe_b64encode(hashlib.sha256(sbom).digest()).rstrip(b"=").decode()
            new = f"{entry.filename},sha256={digest},{len(sbom)}"
            lines = [new if line.startswith(f"{entry.filename},") else line for line in lines]
    content[record] = "".join(f"{line}\n" for line in lines).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for entry, data in content.items():
            written.writestr(entry, data, compresslevel=9)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        neutral(ROOT, Path(argument))
