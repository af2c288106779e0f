"""Checks what is released: `make dist-check`. Prints what is wrong with each wheel and sdist, and exits with 1."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent
_CARGO: Final = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
VERSION: Final[str] = _CARGO["workspace"]["package"]["version"].replace("-", "")
"""The version of the workspace as Python writes it: 0.1.0-rc1 is 0.1.0rc1."""

MAX_WHEEL_SIZE: Final = 12_000_000
NEWEST_GLIBC: Final = (2, 28)
LICENSES: Final = ("LICENSE", "THIRD-PARTY-LICENSES")
IN_SDIST: Final = ("PKG-INFO", "README.md", *LICENSES, "Cargo.lock", "Cargo.toml", "pyproject.toml")
URLS: Final = {"Repository", "Documentation", "Changelog", "Issues"}

_PLATFORM: Final = re.compile(r"manylinux_\d+_\d+_\w+|musllinux_1_2_\w+|macosx_\d+_\d+_\w+")


def in_wheel(path: Path) -> Iterator[str]:
    """Yields what is wrong with a wheel."""
    name, found, python, abi, platforms = path.name.removesuffix(".whl").split("-")
    if (name, found, python, abi) != ("headgate", VERSION, "cp311", "abi3"):
        yield f"a wheel of headgate {VERSION} for CPython 3.11 and newer begins with headgate-{VERSION}-cp311-abi3"
    if not any(_PLATFORM.fullmatch(platform) for platform in platforms.split(".")):
        yield f"{platforms} is not a platform that PyPI accepts"
    if path.stat().st_size > MAX_WHEEL_SIZE:
        yield f"it has {path.stat().st_size:,} bytes, which is more than {MAX_WHEEL_SIZE:,}"
    with zipfile.ZipFile(path) as wheel:
        content = {entry.filename: entry for entry in wheel.infolist()}
        metadata = f"headgate-{VERSION}.dist-info"
        missing = {f"{metadata}/{file}" for file in ("METADATA", *(f"licenses/{name}" for name in LICENSES))} - {
            *content
        }
        if missing:
            yield f"it lacks {', '.join(sorted(missing))}"
            return
        yield from in_metadata(wheel.read(f"{metadata}/METADATA"))
        for file in LICENSES:
            if wheel.read(f"{metadata}/licenses/{file}") != (ROOT / file).read_bytes():
                yield f"its {file} is not that of the checkout"
        bills = [file for file in content if file.startswith(f"{metadata}/sboms/")]
        if not any(len(json.loads(wheel.read(file)).get("components", [])) > 1 for file in bills):
            yield f"no SBOM in {metadata}/sboms lists components"
        for file in content:
            if any(f"{directory}/".encode() in wheel.read(file) for directory in (ROOT, Path.home())):
                yield f"{file} names paths of the machine that built it"


def in_sdist(path: Path) -> Iterator[str]:
    """Yields what is wrong with a source distribution."""
    folder = f"headgate-{VERSION}"
    if path.name != f"{folder}.tar.gz":
        yield f"the sdist of headgate {VERSION} is called {folder}.tar.gz"
        return
    with tarfile.open(path) as sdist:
        content = {member.name.removeprefix(f"{folder}/"): member for member in sdist if member.isfile()}
        missing = {*IN_SDIST} - {*content}
        if missing:
            yield f"it lacks {', '.join(sorted(missing))}"
            return
        information = sdist.extractfile(content["PKG-INFO"])
        yield from in_metadata(information.read() if information else b"")
    for file in content:
        if {"target", ".git", ".venv", "__pycache__"} & {*Path(file).parts} or Path(file).suffix in {".so", ".pyc"}:
            yield f"{file} is not a source file"


def in_metadata(raw: bytes) -> Iterator[str]:
    """Yields what is wrong with the metadata of a distribution."""
    metadata = message_from_bytes(raw)
    if metadata["Version"] != VERSION:
        yield f"its version is {metadata['Version']}, and that of Cargo.toml {VERSION}"
    if metadata["License-Expression"] != "Apache-2.0" or {*metadata.get_all("License-File", [])} != {*LICENSES}:
        yield "its license is not Apache-2.0 with the files LICENSE and THIRD-PARTY-LICENSES"
    if str(metadata["Description-Content-Type"]).partition(";")[0] != "text/markdown":
        yield "its description is not the readme"
    if {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} != URLS:
        yield f"its project URLs are not {', '.join(sorted(URLS))}"
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    if [re.split(r"[^\w.-]", line)[0] for line in required] != ["rich"]:
        yield f"it needs {', '.join(required)}, and should need rich alone"


def in_symbols(path: Path) -> Iterator[str]:
    """Yields what is wrong with the symbols that a wheel needs of the C library and of the stable ABI of Python."""
    if "-manylinux" in path.name:
        shown = _printed_by("auditwheel", "show", path)
        tag = re.search(r'platform\s+tag:\s+"manylinux_(\d+)_(\d+)_\w+"', shown)
        if tag is None or (int(tag[1]), int(tag[2])) > NEWEST_GLIBC:
            yield f"it needs a newer glibc than {'.'.join(map(str, NEWEST_GLIBC))}:\n{shown}"
    yield from _failure_of("abi3audit", "--strict", "--verbose", path)


def _printed_by(tool: str, *arguments: str | Path) -> str:
    return subprocess.run([BIN / tool, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ours


def _failure_of(tool: str, *arguments: str | Path) -> Iterator[str]:
    done = subprocess.run([BIN / tool, *arguments], check=False, capture_output=True, text=True)  # noqa: S603 - ours
    if done.returncode:
        yield f"{tool} found:\n{done.stdout}{done.stderr}"


def main(arguments: list[str]) -> int:
    """Checks the files, and returns the exit code."""
    wrong = False
    for path in map(Path, arguments):
        if not path.exists():
            print(f"{path} is missing: run `make dist` first")
            return 1
        checks: list[Callable[[Path], Iterator[str]]] = [in_sdist]
        if path.suffix == ".whl":
            checks = [in_wheel, in_symbols]
        mistakes = [mistake for check in checks for mistake in check(path)]
        print(f"{path}: {path.stat().st_size:,} bytes{'' if mistakes else ', as it should be'}")
        for mistake in mistakes:
            print(f"  {mistake}")
        wrong |= bool(mistakes)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
