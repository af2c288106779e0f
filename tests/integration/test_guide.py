"""Every program of the guide runs, and prints what the guide shows."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import headgate
from support.documents import Example, examples, prose, table, text
from support.run import LONGEST_S, printed_by

NAME = "docs/many-tasks.md"
REFERENCE = "docs/many-tasks-reference.md"
GUIDE = examples(NAME)


@pytest.mark.parametrize("example", GUIDE, ids=[example.heading for example in GUIDE])
def test_the_example_prints_what_the_guide_shows(example: Example, tmp_path: Path) -> None:
    assert example.output == printed_by(example.code, tmp_path)


def recipes() -> list[str]:
    part = text(NAME).partition("## Recipes\n")[2].partition("\n## ")[0]
    return re.findall(r"^### (.*)$", part, re.MULTILINE)


def test_every_recipe_has_an_example() -> None:
    headings = set(recipes())
    assert headings
    assert set() == headings - {example.heading for example in GUIDE}


def test_the_lists_at_the_top_lead_to_every_part_in_order() -> None:
    headings = re.findall(r"^##+ (.*)$", prose(NAME), re.MULTILINE)
    listed = re.findall(r"^- \[(.*)\]\(#.*\)$", text(NAME), re.MULTILINE)
    assert [heading for heading in headings if heading != "Recipes"] == listed


def test_the_options_table_has_every_argument_of_amap() -> None:
    documented = [name for row in table(REFERENCE, "option", "default") for name in re.findall(r"`(\w+)`", row[0])]
    assert [*signature(headgate.amap).parameters][2:] == documented


@pytest.mark.parametrize("row", table(REFERENCE, "", "takes", "gives"), ids=lambda row: row[0])
def test_the_table_of_forms_says_what_each_one_takes(row: list[str]) -> None:
    name, takes, _, options, limit, asked = row
    (form,) = re.findall(r"`(\w+)`", name)
    parameters = signature(getattr(headgate, form)).parameters
    assert ("items" in parameters) == (takes == "a function, items")
    assert ({"timeout", "retry", "rate", "key"} <= parameters.keys()) == (options == "yes")
    assert ("timeout" in parameters) == (options != "no")
    assert ("ConcurrencyLimit" in str(parameters["limit"].annotation)) == (limit == "yes")
    assert (form in {"amap", "map"}) == (asked == "yes")


def test_the_table_of_statistics_has_every_field() -> None:
    documented = [name.strip("`") for name, _ in table(REFERENCE, "field", "items")]
    assert [*headgate.TaskStatistics.__slots__] == documented


STAYS = """

async def stay(number: int) -> None:
    print("begun", flush=True)
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        print("cancelled", flush=True)
        raise


async def main() -> None:
    async with headgate.amap(stay, itertools.count(), limit=2) as results:
        with stopped_by_ctrl_c(results):
            async for _ in results:
                pass


asyncio.run(main())
"""

GOES_ON = """

async def main() -> None:
    async with headgate.amap(asyncio.sleep, [0], limit=2) as results:
        with stopped_by_ctrl_c(results):
            async for _ in results:
                pass
    print("after the block", flush=True)
    try:
        await asyncio.sleep(1000)
    finally:
        print("cancelled", flush=True)


asyncio.run(main())
"""


@contextmanager
def running_with_the_recipe(program: str, directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """Runs a program that begins with the definitions of the recipe for Ctrl-C."""
    (recipe,) = [example.code for example in GUIDE if example.heading == "Stop on Ctrl-C"]
    code = recipe.partition("async def fetch")[0] + program
    arguments: Any = [sys.executable, "-W", "error", "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, cwd=directory, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: "subprocess.Popen[str]", number: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(number)]


def test_a_second_ctrl_c_cancels_what_the_first_one_lets_finish(tmp_path: Path) -> None:
    with running_with_the_recipe(STAYS, tmp_path) as process:
        assert ["begun"] * 2 == lines_of(process, 2)
        process.send_signal(signal.SIGINT)
        assert ["finishing what has begun, 0 not started; Ctrl-C again cancels"] == lines_of(process, 1)
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=LONGEST_S)
    assert ["cancelled"] * 2 == rest.split()
    assert -signal.SIGINT == process.returncode
    assert stderr.rstrip().endswith("KeyboardInterrupt")


def test_after_the_recipe_ctrl_c_does_what_it_did_before(tmp_path: Path) -> None:
    with running_with_the_recipe(GOES_ON, tmp_path) as process:
        assert ["after the block"] == lines_of(process, 1)
        process.send_signal(signal.SIGINT)
        rest, _told = process.communicate(timeout=LONGEST_S)
    assert "cancelled" == rest.strip()
    assert -signal.SIGINT == process.returncode
