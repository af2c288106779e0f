"""mypy (strict) and pyright infer the right types, refuse wrong arguments, and accept the examples of the guide."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headgate
from support.documents import ROOT, examples

CASES = ROOT / "tests" / "typing"

pytestmark = pytest.mark.timeout(600)  # both read the whole package


def found_by_mypy(*files: Path, cache: Path) -> str:
    """Returns the output of mypy with the options of this checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", "--cache-dir", cache, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def guide(tmp_path: Path) -> list[Path]:
    """Writes each example of the guide to a file, and returns the files."""
    paths = []
    for number, example in enumerate(examples("docs/many-tasks.md")):
        paths.append(tmp_path / f"example_{number}.py")
        paths[-1].write_text(example.code)
    return paths


def test_types_are_inferred_mistakes_are_found_and_the_guide_is_right(guide: list[Path], cache: Path) -> None:
    files = [CASES / "inferred.py", CASES / "mistakes.py", *guide]
    assert f"Success: no issues found in {len(files)} source files\n" == found_by_mypy(*files, cache=cache)


def found_by_pyright(*flags: str | Path, **environment: str) -> dict[str, Any]:
    """Returns the output of pyright with the options of this checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", *flags],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_pyright_infers_the_same_and_finds_the_same_mistakes() -> None:
    found = found_by_pyright()
    assert [] == found["generalDiagnostics"]
    assert found["summary"]["filesAnalyzed"] > len(list(CASES.glob("*.py")))


def test_every_public_name_has_a_whole_type() -> None:
    found = found_by_pyright("--verifytypes", "headgate", "--ignoreexternal", PYTHONPATH=str(ROOT / "python"))
    completeness = found["typeCompleteness"]
    unknown = [symbol["name"] for symbol in completeness["symbols"] if not symbol["isTypeKnown"]]
    assert set(unknown) <= {"headgate.spark.SCHEMA"}  # it belongs to pyspark, which may not be installed
    assert completeness["exportedSymbolCounts"]["withKnownType"] >= len(dir(headgate))


REVEALED = {
    'amap(measure, ["one"], limit=1)': "TaskResults[int]",
    'amap(measure, ["one"], limit=1, errors="skip")': "TaskResults[int]",
    'amap(measure, ["one"], limit=1, errors="yield")': "TaskResults[TaskOutcome[str, int]]",
    'as_completed([measure("one")], limit=1)': "CompletedFutures[int]",
    'headgate.map(measure, ["one"], limit=1, errors="yield")': "MapIterator[TaskOutcome[str, int]]",
    'headgate.Client().get("/")': "Response",
    'headgate.Client().fetch_many(["/"])': "FetchMany[None]",
}


def test_what_is_revealed_is_what_the_reader_of_an_editor_sees(tmp_path: Path, cache: Path) -> None:
    program = tmp_path / "revealed.py"
    lines = [
        "import headgate",
        "from headgate import amap, as_completed",
        "async def measure(word: str) -> int: return len(word)",
        *(f"reveal_type({expression})" for expression in REVEALED),
        'amap(measure, [1], limit="1")',
    ]
    program.write_text("\n".join(lines))
    output = found_by_mypy(program, cache=cache)
    revealed = [
        line.partition('Revealed type is "')[2].rstrip('"') for line in output.splitlines() if "Revealed" in line
    ]
    assert list(REVEALED.values()) == [without_modules(line) for line in revealed]
    assert f"{program}:{len(lines)}: error: No overload variant" in output


def without_modules(kind: str) -> str:
    """Returns a type under the name by which users import it."""
    return re.sub(r"\b\w+\.(?=\w)", "", kind)
