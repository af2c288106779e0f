"""What the README promises of results is what users get, and its example runs."""

import re
from pathlib import Path

import pyarrow as pa

from headgate import _native
from support.documents import blocks, examples, table as documented
from support.results import table
from support.run import headgate, printed_by

ADDRESS = "http://127.0.0.1:8080"


def test_the_columns_are_those_of_the_readme(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-2]", "-o", tmp_path / "out", check=0)
    expected = [
        (name.strip("`"), kind.partition("`, ")[0].strip("`"), kind.endswith(", null"))
        for name, kind, *_ in documented("README.md", "column", "type")
    ]
    assert expected == [(field.name, type_name(field.type), field.nullable) for field in table(tmp_path / "out").schema]


def type_name(kind: pa.DataType) -> str:
    """As arrow writes it, without the name of a list's items and without what may be null within."""
    return re.sub(r"(item|element): | not null", "", str(kind))


def test_the_kinds_of_errors_are_those_of_the_readme() -> None:
    rows = documented("README.md", "`error`", "when")
    assert _native.ERROR_KINDS == [(name.strip("`"), when) for name, when in rows]


def test_the_examples_print_what_the_readme_shows(server: str, tmp_path: Path) -> None:
    # One after the other in the same place: the second one goes on with what the first one has made.
    shown = examples("README.md")
    assert ADDRESS in shown[0].code
    assert [example.output for example in shown] == [
        printed_by(example.code.replace(ADDRESS, server), tmp_path) for example in shown
    ]


def test_the_file_of_rows_becomes_what_the_readme_shows(server: str, tmp_path: Path) -> None:
    (rows,) = [block for block in blocks("README.md", "text") if block.startswith("id,url\n")]
    source = tmp_path / "urls.csv"
    source.write_text(rows.replace(ADDRESS, server))
    headgate("fetch", source, "-o", tmp_path / "pages", "--keep", "id", "-q", check=3)
    columns = ["row", "id", "status", "error", "body_bytes"]
    shown = [line.split()[: len(columns)] for block in blocks("README.md", "console") for line in block.splitlines()]
    # The order is that in which they ended.
    expected = sorted(cells for cells in shown if re.fullmatch(r"a\d", " ".join(cells[1:2])))
    found = table(tmp_path / "pages").select(columns).to_pylist()
    assert expected == [["-" if cell is None else str(cell) for cell in row.values()] for row in found]
