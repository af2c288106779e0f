"""The files of deploy/."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.cli import _fetch_flags
from support import commits
from support.documents import ROOT
from support.origin import changing
from support.run import HEADGATE, LONGEST_S, headgate, serving, started, wait_for

DEPLOY = ROOT / "deploy"
NIGHTLY = DEPLOY / "nightly.sh"
ENDINGS = {2, 3, 4}
"""Exit codes after which the same command would end in the same way."""


def nightly(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with the results and the options in a directory."""
    return subprocess.run(
        ["/bin/sh", NIGHTLY, directory / "results", directory / "headgate.toml", *flags],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        env={**os.environ, "PATH": f"{HEADGATE.parent}:/usr/bin:/bin"},
        check=False,
    )


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path


def outputs(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "results").iterdir())


def test_a_night_has_a_directory_of_its_own_and_a_second_run_makes_no_request(job: Path) -> None:
    with serving() as server:
        (job / "headgate.toml").write_text(f'[fetch]\ninput = "{server}/[1-20]"\nquiet = true\n')
        first, second = nightly(job), nightly(job)
    assert (0, 0) == (first.returncode, second.returncode), first.stderr + second.stderr
    (output,) = outputs(job)
    assert output[:2] == "20"


def test_a_night_that_was_interrupted_is_continued_before_that_of_today(job: Path) -> None:
    with changing() as origin:
        origin.held = {"/50"}
        flags = f"{origin.url}/[1-500]", "-o", job / "results/2026-01-02", "-c", "5", "-q", "--shutdown-timeout", "0"
        with started("fetch", *flags) as running:
            wait_for(lambda: commits.done(job / "results/2026-01-02") > 0)
            busy = nightly_of(job, origin.url)
            running.terminate()
            running.wait(LONGEST_S)
        origin.released.set()
        assert ["2026-01-02"] == outputs(job)
        continued = nightly_of(job, origin.url)
    assert (0, True) == (busy.returncode, "is running" in busy.stderr)
    assert 0 == continued.returncode, continued.stderr
    assert 2 == len(outputs(job))
    for output in outputs(job):
        assert "500 of 500 rows done" in headgate("status", job / "results" / output, check=0).stdout


def nightly_of(job: Path, server: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (job / "headgate.toml").write_text(f'[fetch]\ninput = "{server}/[1-500]"\nconcurrency = 5\nquiet = true\n')
    return nightly(job, *flags)


def test_a_damaged_night_is_an_error(job: Path) -> None:
    (job / "results/2026-01-02/_headgate").mkdir(parents=True)
    (job / "results/2026-01-02/_headgate/job.json").write_text("{")
    (job / "headgate.toml").write_text('[fetch]\ninput = "http://localhost/"\n')
    assert 1 == nightly(job).returncode


def test_a_directory_without_a_job_and_one_of_another_name_stop_no_night(job: Path) -> None:
    (job / "results/2026-01-02/_headgate").mkdir(parents=True)
    (job / "results/2026-01-03.damaged/_headgate").mkdir(parents=True)
    (job / "results/2026-01-03.damaged/_headgate/job.json").write_text("{")
    with serving() as server:
        (job / "headgate.toml").write_text(f'[fetch]\ninput = "{server}/[1-20]"\nquiet = true\n')
        night = nightly(job)
    assert 0 == night.returncode, night.stderr
    assert 3 == len(outputs(job))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", ["headgate.service", "headgate.timer"])
def test_units_are_valid(unit: str, tmp_path: Path) -> None:
    for name in ("headgate.service", "headgate.timer"):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/usr/local/lib/headgate/nightly.sh", str(NIGHTLY)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit],  # noqa: S607 - it is looked up
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (0, []) == (done.returncode, [line for line in done.stderr.splitlines() if unit in line])


def test_the_unit_does_not_repeat_what_would_end_in_the_same_way() -> None:
    text = (DEPLOY / "headgate.service").read_text(encoding="utf-8")
    assert f"RestartPreventExitStatus={' '.join(map(str, sorted(ENDINGS)))}" in text


@pytest.mark.parametrize("name", ["job.yaml", "cronjob.yaml"])
def test_jobs_of_kubernetes_read_their_config_and_do_not_repeat_what_would_end_in_the_same_way(name: str) -> None:
    [manifest] = documents(name)
    spec = manifest["spec"] if name == "job.yaml" else manifest["spec"]["jobTemplate"]["spec"]
    [codes] = [rule["onExitCodes"]["values"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert ENDINGS == set(codes)
    [container] = spec["template"]["spec"]["containers"]
    words = container.get("args") or ["fetch", "--config", *container["command"][3:]]
    values = _fetch_flags.parser().read([word for word in words[1:] if not word.startswith("--config")])
    assert values is not None
    assert [] == values.mistakes
    assert "/etc/headgate/headgate.toml" in words
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    config, _ = documents("config.yaml")
    assert {"headgate.toml", "nightly.sh"} == set(config["data"])
    assert NIGHTLY.read_text(encoding="utf-8") == config["data"]["nightly.sh"]


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")))


def test_the_options_of_the_manifest_are_valid(tmp_path: Path) -> None:
    config, _ = documents("config.yaml")
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "urls.csv").write_text("url\n")
    text = config["data"]["headgate.toml"].replace("/run/secrets/headgate/token", str(tmp_path / "token"))
    (tmp_path / "headgate.toml").write_text(text.replace("/data/urls.csv", str(tmp_path / "urls.csv")))
    headgate("fetch", "--config", tmp_path / "headgate.toml", "-o", tmp_path / "out", "-q", check=0)
