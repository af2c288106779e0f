"""The arithmetic and the checks of bench/http_crossing.py. The clients it compares need not be there."""

import dataclasses
from typing import Any

import pytest

from callers import in_flight, one, runs
from callers.clients import AIOHTTP, CLIENTS, OURS, OURS_ASYNC, PYREQWEST, SOCKET, THREADSAFE, Client
from callers.runs import Load, Run
from harness.tables import Target

SAID = {"requests": 1_000, "elapsed_s": 0.5, "cpu_s": 0.1, "median_s": 0.0004, "p99_s": 0.002}


def run(client: Client, round_: int, at_once: int = 1, **figures: Any) -> Run:
    return Run(client=client.name, caller=client.caller, at_once=at_once, round=round_, **figures)


def shown(found: list[Target], promise: str) -> tuple[str, bool]:
    target = next(one for one in found if promise in one.promise)
    return target.shown, target.met


def test_each_of_several_callers_waits_while_the_rest_are_served() -> None:
    made = runs.measured(run(SOCKET, 1, at_once=8), SAID, 96, 1_096)
    assert (2_000, 4_000, 100) == (made.per_s, made.wall_us, made.cpu_us)
    assert (400, 2_000, "") == (made.median_us, made.p99_us, made.wrong)


def test_a_server_that_has_seen_another_number_of_requests_is_believed() -> None:
    made = runs.measured(run(SOCKET, 1), SAID, 100, 1_101)
    assert "the server has seen 1,101 requests, not 1,100" == made.wrong
    assert "" == runs.measured(run(SOCKET, 1), SAID, 100, None).wrong


def test_a_few_callers_warm_up_longer_and_each_connects() -> None:
    load = Load(host="127.0.0.1", port=1, body=b"", at_once=1, seconds=1, most=1)
    assert [100, 12, 3] == [dataclasses.replace(load, at_once=count).before for count in (1, 8, 1_000)]


def test_a_blocking_call_is_measured_beside_the_socket_of_its_round() -> None:
    # 1.3 x 40 + 15 = 67; the second round is twice as slow, and one that is wrong does not count
    made = [run(SOCKET, 1, median_us=40.0), run(SOCKET, 2, median_us=90.0), run(SOCKET, 3, median_us=1.0)]
    made += [run(OURS, 1, median_us=67.0), run(OURS, 2, median_us=132.0), run(OURS, 3, median_us=900.0, wrong="lost")]
    made += [run(THREADSAFE[0], 1, median_us=134.0), run(THREADSAFE[0], 2, median_us=200.0)]
    found = one.targets(made)
    assert ("1.00 times", True) == shown(found, "blocking socket")
    assert ("0.58 times", False) == shown(found, "run_coroutine_threadsafe: ")
    assert ("\N{EN DASH}", False) == shown(found, "uvloop")


def test_a_client_of_a_loop_is_compared_with_others_on_the_same_loop() -> None:
    made = [run(OURS_ASYNC[0], 1, per_s=3_000.0), run(AIOHTTP[0], 1, per_s=2_000.0)]
    made += [run(OURS_ASYNC[1], 1, per_s=3_000.0), run(PYREQWEST[1], 1, per_s=4_000.0)]
    made += [run(OURS_ASYNC[1], 1, at_once=64, cpu_us=20.5)]
    found = in_flight.targets(made)
    assert ("1.50", True) == shown(found, "headgate.AsyncClient / aiohttp, 1 in flight")
    assert ("0.75", False) == shown(found, "headgate.AsyncClient, uvloop / pyreqwest, uvloop, 1 in flight")
    assert ("20.5 µs", False) == shown(found, "headgate.AsyncClient, uvloop, 64 in flight")
    assert ("\N{EN DASH}", False) == shown(found, "headgate.AsyncClient, 64 in flight")


def test_the_name_of_a_client_is_its_own() -> None:
    assert len(CLIENTS) == len({client.name for client in CLIENTS})


@pytest.mark.parametrize("client", [SOCKET, dataclasses.replace(SOCKET, packages=("sys",), attribute="path")])
def test_what_is_there_is_not_missing(client: Client) -> None:
    assert client.missing() is None


def test_a_missing_package_or_attribute_is_named() -> None:
    missing = "no package no_such_package; run: pip install -r requirements/bench.txt"
    assert missing == dataclasses.replace(SOCKET, packages=("no_such_package",)).missing()
    assert "this sys has no Client" == dataclasses.replace(SOCKET, packages=("sys",), attribute="Client").missing()
