"""Saves the latest measurement for each kind of machine, with a line for each record.

`NAME.md` is for readers, `NAME.jsonl` for programs. The first line of the latter is about the whole; fields of a record
that are empty are left out, and figures have six digits.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import environment

RESULTS: Final = Path(__file__).parents[1] / "results"
_DIGITS: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A saved measurement.

    Attributes:
        about: The machine, the versions, the settings.
        wrong: All mistakes.
        records: All measurements.
    """

    about: Mapping[str, Any]
    wrong: Sequence[str]
    records: Sequence[Mapping[str, Any]]


def keep(name: str, kept: Kept, text: str, results: Path = RESULTS) -> None:
    """Replaces the measurement with this name for this kind of machine."""
    directory = results / environment.machine_kind(kept.about)
    directory.mkdir(parents=True, exist_ok=True)
    head = {"about": kept.about, "wrong": kept.wrong}
    lines = [head, *map(_filled, kept.records)]
    (directory / f"{name}.jsonl").write_text("".join(f"{json.dumps(_short(line))}\n" for line in lines))
    (directory / f"{name}.md").write_text(text)
    print(f"kept as {name} in bench/results/{directory.name}", file=sys.stderr)


def read(path: Path) -> Kept:
    """Reads a `.jsonl`. Fields that a record does not have were empty."""
    head, *records = map(json.loads, path.read_text().splitlines())
    for record in records:
        if "bound_by" in record:  # its name in older results
            record["bottleneck"] = record.pop("bound_by")
    return Kept(about=head["about"], wrong=head["wrong"], records=records)


def _filled(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value not in (None, "")}


def _short(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case float():
            return float(f"{value:.{_DIGITS}g}")
        case Mapping():
            return {key: _short(inner) for key, inner in value.items()}
        case Iterable() if not isinstance(value, str):
            return [_short(inner) for inner in value]
    return value
