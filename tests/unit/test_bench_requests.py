"""What bench/throughput.py compares with an older version, and how it judges."""

from pathlib import Path

import pytest

from harness.servers import BODY
from harness.trial import Cores, Trial
from rivals import Load
from rivals.floor import Floor
from rivals.headgate import Headgate
from rivals.oha import Oha
from rivals.wrk import Wrk
from scenarios import Bench, requests
from scenarios.cells import CELLS, KINDS, NAMES, chosen
from support.trials import trial

BENCH = Bench(
    cores=Cores(server=0, client=1),
    rivals=[Floor(Path("floor")), Wrk(), Oha(Path("oha"))],
    headgate=Path("new/headgate"),
    before=Path("old/headgate"),
    concurrencies=[64],
    cells=[],
    rounds=1,
    seconds=1.0,
    memory_rows=(1, 2),
    client_rows=(1, 2),
)


def load(scratch: Path) -> Load:
    return Load(url="http://127.0.0.1:80", requests=3, seconds=1, concurrency=2, scratch=scratch)


def test_without_a_choice_there_is_every_cell_once() -> None:
    assert list(CELLS.values()) == chosen([])
    assert len(NAMES) == len(set(NAMES)) == len(KINDS) + len(CELLS)


def test_a_kind_means_all_its_cells_and_a_cell_itself() -> None:
    assert ["plain-1000", "tls-64", "tls-1000"] == [cell.name for cell in chosen(["tls", "plain-1000", "tls-64"])]


@pytest.mark.parametrize(
    ("expected", "cell"),
    [
        (["now, none", "before, none", "now, parquet", "before, parquet", "floor", "wrk"], "plain-64"),
        (["now, none", "before, none", "now, parquet", "before, parquet"], "hosts-64"),
        (["now, none", "before, none", "wrk"], "tls-64"),
        (["now, none", "before, none"], "closing-1000"),
    ],
)
def test_only_clients_with_the_same_features_are_compared(expected: list[str], cell: str) -> None:
    assert expected == [rival.name for rival in requests.entrants(BENCH, CELLS[cell])]


def test_now_and_before_do_the_same_by_different_programs(tmp_path: Path) -> None:
    for name, cell in CELLS.items():
        now, before = [
            rival.command(load(tmp_path))
            for rival in requests.entrants(BENCH, cell)
            if rival.name in ("now, none", "before, none")
        ]
        assert (["new/headgate", *now[1:]], ["old/headgate", *now[1:]]) == (now, before), name


def test_a_client_of_many_hosts_asks_them_in_turn_and_others_the_server(tmp_path: Path) -> None:
    command = Headgate(Path("headgate"), "none", hosts=2).command(load(tmp_path))
    assert ["headgate", "fetch", str(tmp_path / "urls.txt")] == command[:3]
    hosts = [url.split(":")[1] for url in (tmp_path / "urls.txt").read_text().splitlines()]
    assert ["//127.0.0.100", "//127.0.0.101", "//127.0.0.100"] == hosts

    command = Headgate(Path("headgate"), "none", flags=("--insecure",)).command(load(tmp_path))
    assert ("http://127.0.0.1:80/[1-3]", "--insecure") == (command[2], command[-1])


def test_the_floor_gets_the_address_and_reports_what_came(tmp_path: Path) -> None:
    floor = Floor(Path("floor"))
    assert ["floor", "127.0.0.1:80", "3", "2"] == floor.command(load(tmp_path))
    said = '{"requests":3,"body_bytes":39,"elapsed_s":0.5,"cpu_s":0.25}'
    claim = floor.claim(load(tmp_path), said)
    assert (3, 3 * len(BODY), 0.5) == (claim.succeeded, claim.body_bytes, claim.elapsed_s)


def plain(client: str, round_: int, requests_per_s: float, cpu_s: float, wrong: str = "") -> Trial:
    return trial(client, round_, requests_per_s, cpu_s=cpu_s, scenario="requests", cell="plain-64", wrong=wrong)


def test_each_cell_is_held_against_the_version_before_and_wrk_of_the_same_round() -> None:
    trials = [plain("now, none", 1, 120, 1.0), plain("before, none", 1, 100, 2.0), plain("wrk", 1, 100, 1.0)]
    trials += [plain("now, none", 2, 10, 1.0), plain("before, none", 2, 10, 1.0), plain("wrk", 2, 10, 2.0)]
    trials += [plain("now, none", 3, 1, 1.0, wrong="lost"), plain("before, none", 3, 9, 1.0), plain("wrk", 3, 9, 1.0)]
    found = requests.finding(trials)
    assert [
        ("plain-64, none: requests/s, / before: at least 1", "1.10", True),
        ("plain-64, none: CPU a request, / before: at most 1 times", "0.75 times", True),
        ("plain-64, none: requests/s, / wrk: at least 1", "1.10", True),
        ("plain-64, parquet: requests/s, / before: at least 1", "–", False),  # noqa: RUF001 - an en dash
        ("plain-64, parquet: CPU a request, / before: at most 1 times", "–", False),  # noqa: RUF001
    ] == [(target.promise, target.shown, target.met) for target in found.targets]
    row = next(line for line in found.text.splitlines() if line.startswith("| GET of one host | 64 | none |"))
    # requests/s, / before, wrk, floor; CPU, / before, wrk, floor
    assert ["65", "1.10", "1.10", "–", "1000.0", "0.75", "0.75", "–"] == row.split(" | ")[3:11]  # noqa: RUF001
    assert "**1 of 3 WRONG**" in row
    assert ["now, none, plain-64, round 3: lost"] == found.wrong


def test_the_longer_path_may_cost_a_little_more() -> None:
    at = {"cell": "post-1000", "concurrency": 1_000}
    trials = [trial("now, none", 1, 98, cpu_s=1.02, **at), trial("before, none", 1, 100, **at)]
    assert [True, True] == [target.met for target in requests.finding(trials).targets]
    trials = [trial("now, none", 1, 96, cpu_s=1.04, **at), trial("before, none", 1, 100, **at)]
    assert [False, False] == [target.met for target in requests.finding(trials).targets]
