"""The fuzz targets are built apart from the workspace: what they are built of is what the workspace is built of."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OWN = {"headgate-fuzz", "libfuzzer-sys", "arbitrary"}


def read(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def packages(path: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(package["name"], package["version"]): package for package in read(path)["package"]}


def test_its_packages_are_those_of_the_workspace_and_libfuzzer() -> None:
    workspace, fuzz = packages("Cargo.lock"), packages("fuzz/Cargo.lock")
    assert OWN == {name for name, _ in fuzz.keys() - workspace.keys()}
    version = read("Cargo.toml")["workspace"]["package"]["version"]
    for crate in ("headgate-core", "headgate-table"):
        manifest = read(f"crates/{crate}/Cargo.toml")
        only_tests = manifest["dev-dependencies"].keys() - manifest["dependencies"].keys()
        needed = [name for name in workspace[crate, version]["dependencies"] if name.split()[0] not in only_tests]
        built = {name.split()[0] for name in fuzz[crate, version]["dependencies"]}
        assert built == {name.split()[0] for name in needed}


def test_each_target_is_built_and_has_seeds() -> None:
    built = {binary["name"] for binary in read("fuzz/Cargo.toml")["bin"]}
    assert built == {path.stem for path in (ROOT / "fuzz/targets").iterdir()}
    assert built == {path.name for path in (ROOT / "fuzz/seeds").iterdir() if any(path.iterdir())}
