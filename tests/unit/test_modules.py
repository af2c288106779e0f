"""The modules of the Rust crates: each uses only those below it, and no files use each other in a circle."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"

# From the bottom up: a module may use those that stand before it. ARCHITECTURE.md shows the same order.
ORDER = {
    "headgate-table": ("columns", "parts", "source", "sink"),
    "headgate-engine": ("queue", "stats", "job", "preview", "engine", "run", "plan"),
}
# What a module is told, so that tables can test it, and what it may not even name. "": every other module.
CLOCKS = ("std::time::Instant::now", "std::time::SystemTime::now", "fastrand")
PURE = {
    "schedule": ("tokio", "std::net", "std::fs", "std::thread", *CLOCKS),
    "files": (),
    "": ("std::net", "std::fs"),
}
ADDRESSES = {f"std::net::{name}" for name in ("IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr")}

COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|\br(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'\\?"'""", re.DOTALL)
TESTS_BELOW = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
TEST_FILE = re.compile(r"#\[cfg\(test\)\]\s*mod (\w+);")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:\w+::)+\w+")
DECLARED = re.compile(r"^\s*(?:pub(?:\([\w: ]+\))? )?mod (\w+);", re.MULTILINE)
REEXPORT = re.compile(r"\bpub(?:\([\w: ]+\))?\s+use\s+([^;]+);")

Module = tuple[str, ...]
Crate = dict[Module, str]


def crate(source: Path) -> Crate:
    """What counts of each file: no comments, no strings, no tests."""
    texts = {}
    for path in source.rglob("*.rs"):
        *folders, name = path.relative_to(source).with_suffix("").parts
        module = tuple(folders) if name in {"mod", "lib"} else (*folders, name)
        text = TESTS_BELOW.split(COMMENT_OR_TEXT.sub('""', path.read_text(encoding="utf-8")))[0]
        texts[module] = text
    tests = {(*module, name) for module, text in texts.items() for name in TEST_FILE.findall(text)}
    return {module: text for module, text in texts.items() if not is_below(module, tests)}


def is_below(module: Module, heads: set[Module]) -> bool:
    return any(module[: len(head)] == head for head in heads)


def flat(use: str) -> Iterator[str]:
    """`a::{b, c::{d, e as f}}` is `a::b`, `a::c::d`, `a::c::e`."""
    start, brace, rest = use.strip().partition("{")
    if not brace:
        yield re.sub(r"\s+as\s+\w+", "", start)
        return
    depth, item = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        if letter == "," and depth == 0:
            if item.strip():
                yield from (start + path for path in flat(item))
            item = ""
        else:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            item += letter


def file_of(texts: Crate, path: Module) -> Module:
    """The file that a path leads into: followed on where that file only re-exports it."""
    module = path
    while module not in texts:
        module = module[:-1]
    for use in REEXPORT.findall(texts[module]) if len(path) > len(module) else ():
        for item in flat(use):
            parts = tuple(item.split("::"))
            if parts[-1] == path[len(module)]:
                return file_of(texts, absolute(texts, module, parts) or module)
    return module


def absolute(texts: Crate, here: Module, parts: Module) -> Module | None:
    """The path from the root of the crate, or `None`: it is none of this crate's."""
    if parts[0] == "crate":
        return parts[1:]
    if parts[0] == "self":
        return here + parts[1:]
    if parts[0] == "super":
        while parts and parts[0] == "super":
            here, parts = here[:-1], parts[1:]
        return here + parts
    # A module that this file declares may stand first.
    return here + parts if parts[0] in DECLARED.findall(texts[here]) else None


def paths(text: str) -> list[str]:
    """Every path in a file. One that begins with an imported name is written out."""
    uses = [path for use in USE.findall(text) for path in flat(use)]
    imported = {path.rpartition("::")[2]: path for path in uses if not path.endswith("::self")}
    others = [path.split("::", 1) for path in PATH.findall(USE.sub("", text))]
    return uses + [f"{imported.get(first, first)}::{rest}" for first, rest in others]


def arrows(texts: Crate) -> dict[Module, set[Module]]:
    """The files that each file uses, but for itself."""
    found: dict[Module, set[Module]] = {}
    for module, text in texts.items():
        targets = (absolute(texts, module, tuple(path.split("::"))) for path in paths(text))
        found[module] = {file_of(texts, target) for target in targets if target is not None} - {module}
    return found


def circles(found: dict[Module, set[Module]]) -> list[Module]:
    """What is left when files that use none of the rest, or that none of the rest uses, are taken away."""
    rest = {module: set(targets) for module, targets in found.items()}
    for upwards in (False, True):
        while True:
            if upwards:
                used = {target for targets in rest.values() for target in targets}
                free = {module for module in rest if module not in used}
            else:
                free = {module for module, targets in rest.items() if not targets & rest.keys()}
            if not free:
                break
            rest = {module: targets - free for module, targets in rest.items() if module not in free}
    return sorted(rest)


def shown(modules: list[Module]) -> list[str]:
    return ["::".join(module) or "lib" for module in modules]


def sources() -> list[Path]:
    return sorted(CRATES.glob("*/src"))


@pytest.mark.parametrize("source", sources(), ids=lambda source: source.parent.name)
def test_no_files_use_each_other_in_a_circle(source: Path) -> None:
    assert set() == set(shown(circles(arrows(crate(source)))))


@pytest.mark.parametrize("name", ORDER)
def test_no_module_uses_one_above_it(name: str) -> None:
    order = ORDER[name]
    upward = [
        f"{'::'.join(module)} uses {'::'.join(target)}"
        for module, targets in arrows(crate(CRATES / name / "src")).items()
        for target in targets
        if {*module[:1]} & {*order} and {*target[:1]} & {*order} and order.index(module[0]) < order.index(target[0])
    ]
    assert [] == sorted(upward)


def test_core_names_nothing_that_waits_or_does_io() -> None:
    impure = [
        f"{'::'.join(module)} names {path}"
        for module, text in crate(CRATES / "headgate-core" / "src").items()
        for path in paths(text)
        if module
        and path.startswith(PURE.get(module[0], PURE[""]))
        and "::".join(path.split("::")[:3]) not in ADDRESSES
    ]
    assert [] == impure


def test_no_path_goes_round_the_reading_of_paths() -> None:
    for source in sources():
        own_name = source.parent.name.replace("-", "_")
        for module, text in crate(source).items():
            assert not re.search(rf"\bcrate\s+as\b|\buse\s+(?:::)?{own_name}\b", text), module


def test_architecture_shows_the_order_of_the_modules() -> None:
    page = (CRATES.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for order in ORDER.values():
        assert " < ".join(order) in " ".join(page.split())


def test_the_walk_sees_a_circle_and_an_arrow_behind_a_reexport() -> None:
    reexport = {
        ("a",): "pub use self::b::Thing;\nmod b;",
        ("a", "b"): "use crate::c::other;",
        ("c",): "use crate::a::Thing;",
    }
    found = arrows({(): "mod a; mod c;", **reexport})
    assert {("a", "b")} == found["c",]
    assert ["a::b", "c"] == shown(circles(found))
