"""The arithmetic of bench/hosts.py."""

from harness import many_hosts
from harness.trial import Trial
from support.trials import trial as made
from wide import lists, memory


def trial(client: str, round_: int, requests_per_s: float, *, peak_rss_bytes: int = 0, wrong: str = "") -> Trial:
    return made(client, round_, requests_per_s, peak_rss_bytes=peak_rss_bytes, wrong=wrong)


def test_a_list_in_random_order_has_each_host_as_often_as_the_others_and_is_the_same_each_time() -> None:
    once, again = (list(many_hosts.rows(100_000, 80, 100_000, "random")) for _ in range(2))
    assert once == again
    assert 100_000 == len(set(once))
    assert sorted(once) == sorted(many_hosts.urls(100_000, 80))
    assert once[:3] != many_hosts.urls(3, 80)


def test_each_list_is_held_against_the_client_that_its_promise_names() -> None:
    found = lists.finding(
        [
            trial("one host, none", 1, 100),
            trial("before, one host, none", 1, 101),
            trial("1,000 hosts in random order, none", 1, 86),
            trial("10,000 hosts in random order, none", 1, 54),
            trial("100,000 hosts once each, none", 1, 9),
            trial(lists.WRK.name, 1, 8),
        ]
    )
    shown = [(target.shown, target.met) for target in found.targets]
    assert shown == [("0.99", True), ("–", False), ("0.86", True), ("0.54", False), ("1.12", True)]  # noqa: RUF001


def test_an_idle_connection_takes_what_one_more_of_them_adds() -> None:
    few, many = (
        trial(f"{idle} idle, none", 1, 1, peak_rss_bytes=size) for idle, size in (("500", 0), ("8,500", 16_000_000))
    )
    assert [("2000 bytes", True)] == [(target.shown, target.met) for target in memory.finding([few, many]).targets]
