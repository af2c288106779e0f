"""What `make release` checks before it builds and tags."""

import subprocess
from pathlib import Path

import pytest

import check_release
from support.programs import program

TODAY = "2026-12-01"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is ready for the release of 1.2.3 on that day."""
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [1.2.3] - {TODAY}\n\n## [1.2.2] - 2026-11-01\n")
    (tmp_path / "README.md").write_text("pip install headgate\n")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path)
    return tmp_path


def git(checkout: Path, *arguments: str) -> None:
    name = ("-c", "user.name=tester", "-c", "user.email=s@example.com")
    subprocess.run([program("git", "git"), "-C", checkout, *name, *arguments], check=True)


def commit(checkout: Path) -> None:
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "a change")


def mistakes(checkout: Path, version: str = "1.2.3", today: str = TODAY) -> list[str]:
    return list(check_release.mistakes(checkout, version, today))


def test_a_checkout_without_mistakes_is_ready(checkout: Path) -> None:
    assert [] == mistakes(checkout)


def test_a_version_is_three_numbers_or_a_candidate(checkout: Path) -> None:
    for version in ("", "1.2", "v1.2.3", "1.2.3-rc1"):
        assert [f"VERSION={version} is not a version such as 0.1.0 or 0.1.0rc1"] == mistakes(checkout, version)
    (checkout / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3-rc1"\n')
    (checkout / "CHANGELOG.md").write_text(f"## [1.2.3rc1] - {TODAY}\n")
    commit(checkout)
    assert [] == mistakes(checkout, "1.2.3rc1")


def test_all_that_is_missing_is_named_at_once(checkout: Path) -> None:
    git(checkout, "checkout", "--quiet", "-b", "other")
    git(checkout, "tag", "v1.2.4")
    (checkout / "README.md").write_text("There is no package yet: build it from a checkout\n")
    (checkout / "new").touch()
    assert [
        "Cargo.toml has version 1.2.3: change it, and run cargo update --workspace",
        "the first release in CHANGELOG.md must be '## [1.2.4] - 2026-12-01'",
        "README.md says 'There is no package yet': it is the page of the package",
        "the tree has changes that are not committed, such as README.md",
        "this is not the branch main",
        "the tag v1.2.4 exists already",
    ] == mistakes(checkout, "1.2.4")


def test_the_changelog_has_the_day_of_the_release(checkout: Path) -> None:
    (mistake,) = mistakes(checkout, today="2026-12-02")
    assert "'## [1.2.3] - 2026-12-02'" in mistake
