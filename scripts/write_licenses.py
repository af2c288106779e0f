"""Writes THIRD-PARTY-LICENSES: `make licenses`.

It lists the crates that are compiled into a released module and the script in the package, with their licenses.
Procedural macros, build scripts and tests are not part of the module. A test compares the file with the output of this
script.
"""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "THIRD-PARTY-LICENSES"
_PAGE: Final = ROOT / "python" / "headgate" / "jobs" / "page"

TARGETS: Final = tuple(
    f"{architecture}-{system}"
    for architecture in ("x86_64", "aarch64")
    for system in ("unknown-linux-gnu", "unknown-linux-musl", "apple-darwin")
)
"""What wheels are released for."""

_LICENSE_NAME: Final = re.compile(r"(licen[cs]e|unlicense|copying|copyright|notice)([-._].*)?", re.IGNORECASE)
_CODE: Final = {".c", ".h", ".py", ".rs", ".toml"}

_OTHER_CHOICE: Final = {("zstd-sys", "zstd/COPYING")}
"""The GPL, where the same sources are also available under a license that is listed."""

_TEXTS_OF: Final = {
    "alloc-stdlib": "alloc-no-stdlib",  # of the same authors and repository
    "flatbuffers": "arrow-ipc",  # the plain Apache License 2.0
}
"""Crates that are published without a license file, and another crate that has the text."""

_LLVM: Final = "Apache-2.0 WITH LLVM-exception"

_ZIG: Final = """\
The MIT License (Expat)

Copyright (c) Zig contributors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
"""

_PUBLIC_SUFFIX_LIST: Final = """\
This Source Code Form is subject to the terms of the Mozilla Public
License, v. 2.0. If a copy of the MPL was not distributed with this
file, You can obtain one at https://mozilla.org/MPL/2.0/.

The list in source form: https://publicsuffix.org/list/public_suffix_list.dat
"""

_HEADER: Final = """\
Third-party software in headgate

headgate's wheels contain the software listed below, almost all of it in the compiled module. The numbers are those of
the license texts that follow the list. headgate itself is available under the Apache License 2.0: see LICENSE.
"""


@dataclass(frozen=True, order=True)
class Crate:
    """A crate of Cargo.lock, with its license as an SPDX expression."""

    name: str
    version: str
    license: str


def crates() -> list[Crate]:
    """Returns the crates of others in the module, on any of `TARGETS`."""
    targets = [argument for target in TARGETS for argument in ("--target", target)]
    listed = _cargo(
        *("tree", "--package", "headgate-python", "--edges", "normal,no-proc-macro", *targets),
        *("--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"),
    )
    found: set[Crate] = set()
    for line in filter(None, listed.splitlines()):
        package, _, expression = line.partition("\t")
        name, version, *path = package.split()
        if not path:  # the crates of the workspace have one
            found.add(Crate(name, version.removeprefix("v"), re.sub(r" ?/ ?", " OR ", expression)))
    return sorted(found)


def listed_in(text: str) -> list[tuple[str, str]]:
    """Returns the names and versions of the crates in the text of THIRD-PARTY-LICENSES."""
    return re.findall(r"^(\S+) (\d\S*): ", text.partition("\n[1]")[0], re.MULTILINE)


def written() -> str:
    """Returns the text of THIRD-PARTY-LICENSES."""
    included = crates()
    directory = _directories()
    texts_of = {crate: list(_texts_in(crate.name, directory[crate.name, crate.version])) for crate in included}
    by_name = {crate.name: texts for crate, texts in texts_of.items()}
    texts_of |= {crate: by_name[_TEXTS_OF[crate.name]] for crate, texts in texts_of.items() if not texts}
    software = [(f"{crate.name} {crate.version}", crate.license, texts) for crate, texts in texts_of.items()]
    apache = (ROOT / "LICENSE").read_text(encoding="utf-8")
    llvm = next(text for text in by_name["linux-raw-sys"] if "LLVM Exceptions" in text)
    software += [
        ("The standard library of Rust and the crates in it", "Apache-2.0", [apache]),
        ("libunwind and compiler-rt of LLVM", _LLVM, [llvm]),
        ("compiler-rt of Zig, in wheels for Linux", "MIT", [_ZIG]),
        ("The Public Suffix List, in psl", "MPL-2.0", [_PUBLIC_SUFFIX_LIST]),
        ("uPlot 1.6.32, in reports on jobs", "MIT", [(_PAGE / "uPlot.LICENSE").read_text(encoding="utf-8")]),
    ]
    return _document(software)


def _document(software: Iterable[tuple[str, str, list[str]]]) -> str:
    number_of: dict[str, int] = {}
    users: defaultdict[int, list[str]] = defaultdict(list)
    text_of: dict[int, str] = {}
    lines = []
    for name, expression, texts in software:
        # Texts are the same if their words are, however they are wrapped.
        own = {" ".join(re.findall(r"\w+", text.lower())): text for text in texts}
        numbers = [number_of.setdefault(words, len(number_of) + 1) for words in own]
        for number, text in zip(numbers, own.values(), strict=True):
            text_of.setdefault(number, text)
            users[number].append(name)
        lines.append(f"{name}: {expression} {sorted(numbers)}")
    parts = [_HEADER, "\n".join([*lines, ""])]
    parts += [f"[{number}] {', '.join(users[number])}\n\n{text}" for number, text in text_of.items()]
    return f"\n{'-' * 80}\n\n".join(parts)


def _texts_in(name: str, directory: Path) -> Iterator[str]:
    """Yields the licenses in the sources of a crate, those of code that it brings included."""
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory).as_posix()
        if _LICENSE_NAME.fullmatch(path.name) and path.suffix not in _CODE and path.is_file():
            if (name, inside) in _OTHER_CHOICE:
                continue
            lines = path.read_text(encoding="utf-8").splitlines()
            yield "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def _directories() -> dict[tuple[str, str], Path]:
    """Returns where the sources of each crate of Cargo.lock are."""
    packages = json.loads(_cargo("metadata", "--format-version", "1"))["packages"]
    return {(package["name"], package["version"]): Path(package["manifest_path"]).parent for package in packages}


def _cargo(*arguments: str) -> str:
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout  # noqa: S603 - ours


def main() -> None:
    """Writes the file anew."""
    FILE.write_text(written(), encoding="utf-8")
    print(f"wrote {FILE.name}: {len(crates())} crates")


if __name__ == "__main__":
    main()
