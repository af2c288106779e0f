"""Checks that the checkout can become a release: `make release VERSION=0.1.0`.

usage: check_release.py VERSION
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def mistakes(root: Path, version: str, today: str) -> Iterator[str]:
    """Yields what prevents the release of a checkout under this version; `today` is an ISO date."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        yield f"VERSION={version} is not a version such as 0.1.0 or 0.1.0rc1"
        return
    stated = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    # Cargo writes 0.1.0-rc1 where Python writes 0.1.0rc1.
    if stated.replace("-", "") != version:
        yield f"Cargo.toml has version {stated}: change it, and run cargo update --workspace"
    heading = f"## [{version}] - {today}"
    newest = re.search(r"^## \[.*$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if newest is None or newest[0] != heading:
        yield f"the first release in CHANGELOG.md must be '{heading}'"
    readme = (root / "README.md").read_text(encoding="utf-8")
    unreleased = [text for text in ("not released yet", "There is no package yet") if text in readme]
    if unreleased:
        yield f"README.md says '{unreleased[0]}': it is the page of the package"
    changed = _git(root, "status", "--porcelain").splitlines()
    if changed:
        yield f"the tree has changes that are not committed, such as {changed[0][3:]}"
    if _git(root, "rev-parse", "--abbrev-ref", "HEAD").strip() != "main":
        yield "this is not the branch main"
    if _git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists already"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ours


def main() -> int:
    """Prints all mistakes, and returns the exit code."""
    (version,) = sys.argv[1:] or [""]
    found = list(mistakes(ROOT, version, datetime.now(UTC).date().isoformat()))
    for mistake in found:
        print(f"not ready: {mistake}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
