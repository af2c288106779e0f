"""The sdist has what is needed to build it."""

import subprocess
import sys
from pathlib import Path

import check_dist


def test_it_has_what_a_build_needs_and_nothing_that_was_built(tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], check=True, cwd=check_dist.ROOT)
    (sdist,) = tmp_path.iterdir()
    assert [] == list(check_dist.in_sdist(sdist))
