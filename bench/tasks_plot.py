"""Draws the cost of a bounded task, from results of `tasks.py --save`, with a bar for each way."""

import argparse
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from bounded import runs
from bounded.runs import Run
from bounded.ways import FIXED_WORKERS, FLOOR, WAYS, Way
from bounded.workloads import WORKLOADS, YIELDS
from harness import kept

_OURS: Final = "#2f81f7"
_OTHERS: Final = "#8d97a3"
_FLOOR: Final = "#db7a2a"
_TEXT: Final = "#747d88"
"""A colour that is readable on white and on black."""
_STYLE: Final = """\
<style>
text { fill: #59636e }
.strong text { fill: #1f2328 }
.floor text { fill: #bc5a0c }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .strong text { fill: #f0f6fc }
  .floor text { fill: #f0883e }
}
</style>
"""
"""More contrast, for a viewer that reports whether the page is light or dark."""
_SETTINGS: Final[dict[str, Any]] = {
    "svg.hashsalt": "headgate",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Segoe UI", "Noto Sans", "Arial", "DejaVu Sans"],
    "text.color": _TEXT,
}
_WIDTH_INCHES: Final = 9.0
_BAR_INCHES: Final = 0.32
_HEAD_INCHES: Final = 1.05
_FOOT_INCHES: Final = 0.62
_LABELS_INCHES: Final = 3.2
_VALUES_INCHES: Final = 1.8
_LARGE: Final = 15
_NORMAL: Final = 11
_SMALL: Final = 9


def main() -> int:
    """Writes the picture, in the format of its file name."""
    arguments = _arguments()
    found = kept.read(arguments.results)
    made = [Run(**run) for run in found.records]
    made = [run for run in made if (run.workload, run.limit) == (arguments.workload, arguments.limit)]
    if not runs.right(runs.of(made, FLOOR)):
        print(f"error: no floor in {arguments.results} for this workload and limit", file=sys.stderr)
        return 2
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # the fonts are those of the reader
    with mpl.rc_context(_SETTINGS):
        figure = _draw(made, found.about)
        if arguments.picture.suffix != ".svg":
            figure.savefig(arguments.picture, facecolor=arguments.background, dpi=110)
            return 0
        figure.savefig(arguments.picture, transparent=True, metadata={"Date": None})
    text = arguments.picture.read_text()
    for colour in (_TEXT, _FLOOR):  # an attribute `style` could not be overridden
        text = text.replace(f'; fill: {colour}"', f'" fill="{colour}"')
    text = re.sub(r'<g id="(strong|floor)-', r'<g class="\1" id="\1-', text)
    # matplotlib ends lines with blanks, which a repository should not have
    lines = text.replace(" <defs>\n", f"{_STYLE} <defs>\n", 1).splitlines()
    arguments.picture.write_text("\n".join(line.rstrip() for line in lines) + "\n")
    return 0


def _draw(made: Sequence[Run], about: Mapping[str, Any]) -> Figure:
    """Draws a linear scale from zero, so that the length of a bar is the cost."""
    costs = [(way, us) for way in WAYS if way not in (FLOOR, FIXED_WORKERS) and (us := runs.median_us(made, way))]
    costs.sort(key=lambda cost: cost[1])
    floor_us = runs.median_us(made, FLOOR) or 0.0
    height = _HEAD_INCHES + _FOOT_INCHES + _BAR_INCHES * len(costs)
    figure = Figure(figsize=(_WIDTH_INCHES, height))
    left, right = _LABELS_INCHES / _WIDTH_INCHES, 1 - _VALUES_INCHES / _WIDTH_INCHES
    bottom, top = _FOOT_INCHES / height, 1 - _HEAD_INCHES / height
    axes = figure.add_axes((left, bottom, right - left, top - bottom))
    axes.set_axis_off()
    longest = max((us for _, us in costs), default=floor_us)
    axes.set_xlim(0, longest)
    axes.set_ylim(len(costs) - 0.5, -0.5)

    axes.barh(range(len(costs)), [us for _, us in costs], height=0.66, color=[_colour(way) for way, _ in costs])
    for row, (way, us) in enumerate(costs):
        kind, weight = ("strong", "bold") if way.ours else ("soft", "normal")
        ratio = runs.median_ratio(made, way, FLOOR)
        beyond = max(us, floor_us)  # otherwise the line of the floor would cross the number
        for column, words, x, shift, align in (
            ("name", way.name if way.bounded else f"{way.name} (unbounded)", 0, -9, "right"),
            ("us", f"{us:.1f} µs", beyond, 8, "left"),
            ("ratio", f"{ratio:.2f}×" if ratio else "", longest, 116, "right"),  # noqa: RUF001 - times
        ):
            axes.annotate(
                words,
                (x, row),
                (shift, 0),
                textcoords="offset points",
                ha=align,
                va="center",
                size=_NORMAL,
                weight=weight,
                gid=f"{kind}-{column}-{row}",
                annotation_clip=False,
            )
    axes.annotate(
        "times the floor",
        (longest, -0.62),
        (116, 4),
        textcoords="offset points",
        ha="right",
        size=_SMALL + 1,
        annotation_clip=False,
    )
    axes.plot([floor_us] * 2, [-0.62, len(costs) - 0.5], color=_FLOOR, linewidth=1.4, dashes=(4, 2.5), clip_on=False)
    floor = axes.annotate(
        f"the floor, {floor_us:.1f} µs: a bare task, result dropped",
        (floor_us, -0.62),
        (-3, 4),
        textcoords="offset points",
        color=_FLOOR,
        size=_SMALL + 1,
        annotation_clip=False,
    )
    floor.set_gid("floor-label")

    edge = 0.16 / _WIDTH_INCHES
    figure.text(
        edge, 1 - 0.16 / height, "What one bounded task costs", va="top", size=_LARGE, weight="bold", gid="strong-title"
    )
    figure.text(
        edge,
        1 - 0.46 / height,
        f"microseconds of CPU a task, linear from zero; {made[0].limit:,} at once, each task {made[0].workload}",
        va="top",
        size=_NORMAL,
    )
    for line, words in enumerate(_foot(made, about)):
        figure.text(edge, (0.33 - 0.18 * line) / height, words, size=_SMALL)
    return figure


def _colour(way: Way) -> str:
    return _OURS if way.ours else _OTHERS


def _foot(made: Sequence[Run], about: Mapping[str, Any]) -> tuple[str, str]:
    rounds = max(run.round for run in made)
    return (
        f"Medians of {rounds} runs. The ratio is to the floor of the same round, and surer than the microseconds.",
        f"Python {about['python']}, {about['loop']}, one core of {about['cpu']}, {about['date']}. bench/tasks.py",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="tasks-cost.jsonl of the results")
    parser.add_argument("picture", type=Path, help="to write: .svg for a page, .png for a look")
    parser.add_argument("--workload", choices=WORKLOADS, default=YIELDS)
    parser.add_argument("--limit", type=int, default=1_000)
    parser.add_argument("--background", default="white", help="of a .png (default: white)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
