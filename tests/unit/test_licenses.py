"""THIRD-PARTY-LICENSES covers what is compiled into the module."""

import re

import pytest

import write_licenses

WRITTEN = write_licenses.FILE.read_text(encoding="utf-8")


def test_it_lists_the_crates_of_the_module_with_their_versions() -> None:
    expected = [(crate.name, crate.version) for crate in write_licenses.crates()]
    assert expected == write_licenses.listed_in(WRITTEN), "run `make licenses`"


def test_its_texts_are_those_in_the_sources_of_the_crates() -> None:
    assert write_licenses.written() == WRITTEN, "run `make licenses`"


def test_each_entry_names_texts_that_follow() -> None:
    entries = re.findall(r"^[^\[\n]+: .+ \[([\d, ]*)\]$", WRITTEN.partition("\n[1]")[0], re.MULTILINE)
    used = {int(number) for entry in entries for number in entry.split(", ")}
    assert used == {int(number) for number in re.findall(r"^-{80}\n\n\[(\d+)\]", WRITTEN, re.MULTILINE)}


@pytest.mark.parametrize("name", ["serde_derive", "proptest", "cc"])
def test_crates_that_only_build_or_test_it_are_not_listed(name: str) -> None:
    assert name not in {listed for listed, _ in write_licenses.listed_in(WRITTEN)}
