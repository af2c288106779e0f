"""The checks of what is released find what is wrong."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

import check_dist
import neutral_sbom

METADATA = f"""\
Metadata-Version: 2.4
Name: headgate
Version: {check_dist.VERSION}
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY-LICENSES
Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM
Project-URL: Changelog, https://example.org
Project-URL: Documentation, https://example.org
Project-URL: Issues, https://example.org
Project-URL: Repository, https://example.org
Requires-Dist: rich>=13.9
Requires-Dist: pyarrow>=17 ; extra == 'ray'
"""


@pytest.mark.parametrize(
    ("line", "instead", "mistake"),
    [
        ("Version: ", "Version: 9.", "its version is 9."),
        ("Expression: Apache-2.0", "Expression: MIT", "its license is not Apache-2.0"),
        ("License-File: THIRD-PARTY-LICENSES\n", "", "its license is not Apache-2.0"),
        ("text/markdown", "text/x-rst", "its description is not the readme"),
        ("Project-URL: Issues", "Project-URL: Bugs", "its project URLs are not"),
        (" ; extra == 'ray'", "", "it needs rich>=13.9, pyarrow>=17, and should need rich alone"),
    ],
)
def test_metadata_that_is_wrong_is_found(line: str, instead: str, mistake: str) -> None:
    assert [] == list(check_dist.in_metadata(METADATA.encode()))
    wrong = METADATA.replace(f"\n{line}", f"\n{instead}").replace(line, instead)
    (found,) = check_dist.in_metadata(wrong.encode())
    assert found.startswith(mistake)


def wheel(folder: Path, *, without: str = " ", platform: str = "manylinux_2_28_x86_64", module: bytes = b"") -> Path:
    path = folder / f"headgate-{check_dist.VERSION}-cp311-abi3-{platform}.whl"
    information = f"headgate-{check_dist.VERSION}.dist-info"
    content = {
        "headgate/_headgate.abi3.so": module,
        f"{information}/METADATA": METADATA.encode(),
        f"{information}/sboms/headgate.json": json.dumps({"components": [{}, {}]}).encode(),
        **{f"{information}/licenses/{name}": (check_dist.ROOT / name).read_bytes() for name in check_dist.LICENSES},
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            if without not in name:
                file.writestr(name, data)
    return path


def test_a_wheel_that_is_right_has_no_mistakes(tmp_path: Path) -> None:
    assert [] == list(check_dist.in_wheel(wheel(tmp_path)))


def test_a_wheel_that_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistake(path: Path) -> str:
        (found,) = check_dist.in_wheel(path)
        return found

    assert "it lacks" in mistake(wheel(tmp_path, without="THIRD-PARTY"))
    assert "lists components" in mistake(wheel(tmp_path, without="sboms"))
    assert "linux_x86_64 is not a platform" in mistake(wheel(tmp_path, platform="linux_x86_64"))
    assert "names paths of the machine" in mistake(wheel(tmp_path, module=f"{Path.home()}/crate".encode()))
    monkeypatch.setattr(check_dist, "MAX_WHEEL_SIZE", 1000)
    assert "which is more than 1,000" in mistake(wheel(tmp_path))


def test_an_sdist_that_lacks_the_lock_file_is_found(tmp_path: Path) -> None:
    folder = f"headgate-{check_dist.VERSION}"
    path = tmp_path / f"{folder}.tar.gz"

    def pack(*names: str) -> list[str]:
        with tarfile.open(path, "w:gz") as sdist:
            for name in names:
                data = METADATA.encode() if name == "PKG-INFO" else b""
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(data)
                sdist.addfile(member, io.BytesIO(data))
        return list(check_dist.in_sdist(path))

    assert [] == pack(*check_dist.IN_SDIST)
    assert ["it lacks Cargo.lock"] == pack(*(name for name in check_dist.IN_SDIST if name != "Cargo.lock"))
    assert ["target/release/x is not a source file"] == pack(*check_dist.IN_SDIST, "target/release/x")


def test_the_exit_code_says_whether_anything_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_dist, "in_symbols", lambda _: iter(()))
    assert 0 == check_dist.main([str(wheel(tmp_path))])
    assert "as it should be" in capsys.readouterr().out
    assert 1 == check_dist.main([str(wheel(tmp_path, without="sboms"))])
    assert "no SBOM" in capsys.readouterr().out


def test_the_sbom_of_a_wheel_has_no_path_of_the_machine_and_its_new_hash(tmp_path: Path) -> None:
    wheel, metadata = tmp_path / "a.whl", "a-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as written:
        written.writestr(f"{metadata}/sboms/a.json", '{"ref": "file:///home/me/checkout/crates/a"}')
        written.writestr("a.py", "'/home/me/checkout/'")
        written.writestr(
            f"{metadata}/RECORD", f"a.py,sha256=x,20\n{metadata}/sboms/a.json,sha256=y,44\n{metadata}/RECORD,,\n"
        )
    neutral_sbom.neutral(Path("/home/me/checkout"), wheel)
    with zipfile.ZipFile(wheel) as opened:
        assert b'{"ref": "file://crates/a"}' == opened.read(f"{metadata}/sboms/a.json")
        assert b"'/home/me/checkout/'" == opened.read("a.py")
        first, second, third = opened.read(f"{metadata}/RECORD").decode().splitlines()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b'{"ref": "file://crates/a"}').digest()).decode().rstrip("=")
    assert ("a.py,sha256=x,20", f"{metadata}/RECORD,,") == (first, third)
    assert f"{metadata}/sboms/a.json,sha256={digest},26" == second
