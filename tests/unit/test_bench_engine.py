"""The arithmetic of bench/engine.py."""

from pathlib import Path
from typing import Any

from harness.many_hosts import HOSTS, urls, write
from harness.trial import Trial
from inside import hosts, select, warm
from inside.hosts import MANY, ONE
from support.trials import trial as made


def trial(client: str, round_: int, requests_per_s: float, cpu_s: float, *, wrong: str = "") -> Trial:
    return made(client, round_, requests_per_s, cpu_s=cpu_s, scenario="hosts", server_connections=500, wrong=wrong)


def test_every_host_has_an_address_of_its_own_and_urls_are_of_one_length() -> None:
    found = urls(HOSTS, 8080)
    assert HOSTS == len(set(found))
    assert 1 == len({len(url) for url in found})
    assert ("http://127.0.0.100:8080/row", "http://127.0.9.199:8080/row") == (found[0], found[-1])


def test_rows_go_to_the_hosts_in_turn(tmp_path: Path) -> None:
    write(tmp_path / "urls.txt", hosts=2, port=80, count=5)
    one, other = "http://127.0.0.100:80/row", "http://127.0.0.101:80/row"
    assert [one, other, one, other, one] == (tmp_path / "urls.txt").read_text().splitlines()


def test_many_hosts_are_held_against_one_host_of_the_same_round() -> None:
    trials = [trial(ONE, 1, 100, 1.0), trial(MANY, 1, 89, 1.1), trial(ONE, 2, 10, 1.0), trial(MANY, 2, 8.9, 1.2)]
    trials += [trial(ONE, 3, 10, 1.0), trial(MANY, 3, 30, 1.0, wrong="lost")]
    found = hosts.finding(trials)
    assert [
        (f"requests/s, {MANY} / one host, c = 64: at least 0.9", "0.89", False),
        (f"CPU a request, {MANY} / one host, c = 64: at most 1.11 times", "1.15 times", False),
    ] == [(target.promise, target.shown, target.met) for target in found.targets]
    assert [f"{MANY}, concurrency 64, round 3: lost"] == found.wrong
    assert "**1 of 3 WRONG**" in found.text
    assert [500.0] * 6 == [1000 * record["server_connections"] / record["requests"] for record in found.raw]


def record(round_: int, engine: str, median_us: float) -> dict[str, Any]:
    quantiles = {"median_us": median_us, "p90_us": 2 * median_us}
    return {"round": round_, "engine": engine, "started": quantiles, "outcome": quantiles, "ended": quantiles}


def test_only_the_warm_engine_has_promised_a_time() -> None:
    records = [record(round_, "warm", us) for round_, us in ((1, 900), (2, 5_000), (3, 1_000))]
    found = warm.finding([*records, record(1, "cold", 7_000)])
    assert [("1.000 ms", True)] * 2 == [(target.shown, target.met) for target in found.targets]
    assert "| the run has ended | 1.000 | 2.000 | 7.000 | 14.000 |" in found.text

    found = warm.finding([record(1, "warm", 1_001)])
    assert [("1.001 ms", False)] * 2 == [(target.shown, target.met) for target in found.targets]


def test_selections_are_held_against_plain_fetches_that_keep_the_same() -> None:
    def of(client: str, requests_per_s: float, cpu_s: float) -> Trial:
        return made(client, 1, requests_per_s, cpu_s=cpu_s, scenario="select")

    trials = [
        *(of("plain, none", 100, 1.0), of("3 selected, none", 85, 1.25), of("3 searched, none", 50, 2.0)),
        *(of("plain, parquet", 80, 1.0), of("3 selected, parquet", 76, 1.1), of("3 searched, parquet", 40, 2.0)),
    ]
    found = select.finding(trials)
    assert [
        ("requests/s, 3 selected, none / plain, c = 64: at least 0.9", "0.85", False),
        ("requests/s, 3 selected, parquet / plain, c = 64: at least 0.9", "0.95", True),
    ] == [(target.promise, target.shown, target.met) for target in found.targets]
    assert [] == found.wrong
