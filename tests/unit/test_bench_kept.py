"""What bench/ keeps of its measurements, and reads again."""

from pathlib import Path
from typing import Any

import pytest

from bounded.runs import Run
from harness import kept
from harness.kept import RESULTS, Kept
from harness.trial import Trial

ABOUT: dict[str, Any] = {"date": "2026-01-01", "cpu": "A (R) CPU", "cores": 2, "versions": {"other": "1.0"}}


def found(*records: dict[str, Any], **about: Any) -> Kept:
    return Kept(about=ABOUT | about, wrong=[], records=list(records))


def test_what_is_kept_is_read_again_to_six_digits(tmp_path: Path) -> None:
    measured = Kept(
        about=ABOUT,
        wrong=["lost"],
        records=[{"way": "µ", "tasks": 12_345_678, "s": 1.23456789, "of": {"p90": 0.000123456789}, "all": [1.5, 2]}],
    )
    kept.keep("x", measured, "# Words\n", results=tmp_path)
    again = kept.read(tmp_path / "a-r-cpu-2-cores" / "x.jsonl")
    assert (ABOUT, ["lost"]) == (again.about, again.wrong)
    assert [
        {"way": "µ", "tasks": 12_345_678, "s": 1.23457, "of": {"p90": 0.000123457}, "all": [1.5, 2]}
    ] == again.records
    assert "# Words\n" == (tmp_path / "a-r-cpu-2-cores" / "x.md").read_text()


def test_a_record_is_one_line_and_names_nothing_that_is_empty(tmp_path: Path) -> None:
    kept.keep("x", found({"n": 0, "wrong": "", "ideal_s": None}, {"n": 1, "wrong": "lost\nall"}), "", results=tmp_path)
    lines = (tmp_path / "a-r-cpu-2-cores" / "x.jsonl").read_text().splitlines()
    assert ['{"n": 0}', '{"n": 1, "wrong": "lost\\nall"}'] == lines[1:]


def test_a_kind_of_machine_has_one_measurement_and_that_is_the_latest(tmp_path: Path) -> None:
    kept.keep("x", found({"n": 1}), "old", results=tmp_path)
    kept.keep("y", found({"n": 2}), "other question", results=tmp_path)
    kept.keep("x", found({"n": 3}, cores=64), "other machine", results=tmp_path)
    kept.keep("x", found({"n": 4}, date="2026-02-02"), "new", results=tmp_path)
    texts = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}
    assert {"a-r-cpu-2-cores/x.md": "new", "a-r-cpu-2-cores/y.md": "other question"} | {
        "a-r-cpu-64-cores/x.md": "other machine"
    } == texts
    assert [{"n": 4}] == kept.read(tmp_path / "a-r-cpu-2-cores" / "x.jsonl").records


def kept_here() -> list[Path]:
    return sorted(RESULTS.rglob("*.jsonl"))


def test_something_is_kept() -> None:
    assert {"throughput", "memory", "original", "durability-kill", "tasks-cost"} <= {path.stem for path in kept_here()}


@pytest.mark.parametrize("path", kept_here(), ids=lambda path: path.stem)
def test_every_measurement_that_is_kept_can_be_read_and_has_words_of_its_own_day(path: Path) -> None:
    measurement = kept.read(path)
    assert measurement.records
    assert path.with_suffix(".md").read_text().startswith("# ")
    assert f"{measurement.about['cpu']}, {measurement.about['date']}\n" in path.with_suffix(".md").read_text()
    assert path.parent.name.endswith(f"-{measurement.about['cores']}-cores")


def test_what_is_kept_makes_the_figures_of_its_kind_again() -> None:
    trials, tasks = 0, 0
    for path in kept_here():
        records = kept.read(path).records
        if path.stem in {"throughput", "memory", "original", "durability-cost"}:
            trials += len([Trial(**record) for record in records])
        elif path.stem.startswith("tasks"):
            tasks += len([Run(**record) for record in records])
    assert trials
    assert tasks


def test_the_results_hold_nothing_but_measurements() -> None:
    names = {path.with_suffix("") for path in kept_here()}
    assert sorted(name.with_suffix(suffix) for name in names for suffix in (".jsonl", ".md")) == sorted(
        path for path in RESULTS.rglob("*") if path.is_file()
    )
