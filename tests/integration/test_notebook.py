"""In a notebook, cells may block, progress is one line, and objects are shown as tables."""

from pathlib import Path

import pyarrow as pa
import pytest

import headgate
from support.run import printed_by, serving

CELL = """
import asyncio
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
import headgate

shell = InteractiveShell.instance()
shell.kernel = object()  # only the shell of a notebook has a kernel, that of a terminal does not
shell.display_pub = CapturingDisplayPublisher()

async def cell():
    {cell}

asyncio.run(cell())
for output in shell.display_pub.outputs:
    print(output["update"], output["transient"]["display_id"], output["data"]["text/plain"], sep="|")
"""


@pytest.mark.parametrize(
    "cell",
    [
        'headgate.fetch("{server}/[1-100]", "out", concurrency=20)',
        'headgate.start("{server}/[1-100]", "out", concurrency=20, progress=True).wait()',
        'await headgate.start("{server}/[1-100]", "out", concurrency=20, progress=True)',
    ],
)
def test_a_cell_may_block_and_shows_one_line_that_is_replaced(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with serving("--delay", "0..0.4") as server:
        shown = printed_by(CELL.format(cell=cell.format(server=server)), tmp_path).splitlines()
    updates, displays, texts = zip(*(line.split("|") for line in shown), strict=True)
    assert ("False", {"True"}, 1) == (updates[0], set(updates[1:]), len(set(displays)))
    assert texts[-1].startswith("100 of 100 rows (100 %), ")
    assert "left" not in texts[-1]
    assert max(map(len, texts)) < 100


def test_progress_can_be_left_out(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    cell = f'headgate.fetch("{server}/[1-100]", "out", progress=False)'
    assert "" == printed_by(CELL.format(cell=cell), tmp_path)


def test_pandas_gets_an_error_that_says_how_to_read_the_rows(server: str, tmp_path: Path) -> None:
    import pandas as pd  # noqa: PLC0415 - takes a second

    headgate.fetch(f"{server}/[1-3]", tmp_path)
    rows = headgate.Job.open(tmp_path).rows()
    with pytest.raises(TypeError, match=r"for pandas: pyarrow\.table\(rows\)\.to_pandas\(\)$"):
        pd.DataFrame(rows)
    frame = pa.table(rows).to_pandas()
    assert ([0, 1, 2], [200] * 3) == (sorted(frame["row"]), list(frame["status"]))


def test_the_value_of_a_cell_is_shown_as_a_table(server: str, tmp_path: Path) -> None:
    run = headgate.start(f"{server}/[1-3]", tmp_path / "<out>")
    assert "of 3" in run._repr_html_()
    summary = run.wait()
    job = headgate.Job.open(tmp_path / "<out>")
    for shown in (run, summary, job, job.status()):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert "&lt;out&gt;" in html
        assert "<out>" not in html
