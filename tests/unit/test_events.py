"""What happened in a run follows from its snapshots, and a log of it stays small."""

from typing import Any

from headgate import Snapshot
from headgate.jobs._events import Event, Events, as_json, as_text
from support.figures import snapshot_json


def snapshot(**changes: Any) -> Snapshot:
    return Snapshot.from_json(snapshot_json(**changes))


def names(events: Events, **changes: Any) -> list[str]:
    return [event.name for event in events.until(snapshot(**changes))]


def commit(number: int) -> dict[str, int]:
    return {"number": number, "done": 10 * number, "failed": 1, "parts": number, "bytes": 1000}


def test_commits_between_two_snapshots_are_one_event_that_counts_them() -> None:
    events = Events(snapshot(commit=commit(1)))
    assert [] == names(events, commit=commit(1))
    (event,) = events.until(snapshot(commit=commit(3)))
    assert ("commit", "commit 3: 30 rows done, 1 failed; 3 files, 1000 B") == (event.name, event.message)
    assert commit(3) | {"commits": 2} == event.fields


def test_a_setting_is_an_event_once() -> None:
    events = Events(snapshot(set={"rate": "5/s"}))
    assert [] == names(events, set={"rate": "5/s"})
    (event,) = events.until(snapshot(set={"rate": "5/s", "concurrency": "9"}))
    assert ("set", "set: concurrency 9", {"set": {"concurrency": "9"}}) == (event.name, event.message, event.fields)
    assert [] == names(events, set={"rate": "5/s", "concurrency": "9"})


def test_a_paused_run_that_is_stopped_is_not_called_unpaused() -> None:
    events = Events(snapshot(phase="running"))
    assert ["pause"] == names(events, phase="paused")
    assert ["unpause"] == names(events, phase="waiting")
    assert ["pause"] == names(events, phase="paused")
    assert ["stop"] == names(events, phase="stopping", stopping=True)


def test_a_host_that_does_the_same_each_time_is_one_event_in_ten_seconds() -> None:
    events = Events(snapshot(elapsed_s=0))
    found = [
        event
        for tick in range(1, 301)
        for event in events.until(
            snapshot(
                elapsed_s=tick / 5, pauses={"a.test": tick}, breakers_opened={"b.test": tick}, open_breakers=tick % 2
            )
        )
    ]
    assert {"host_pause": 6, "breaker_open": 6, "breaker_closed": 6} == {
        name: sum(event.name == name for event in found) for name in ("host_pause", "breaker_open", "breaker_closed")
    }
    # What was left out is counted by the next event, and at the end.
    last = list(
        events.until(snapshot(elapsed_s=60.1, phase="ended", pauses={"a.test": 300}, breakers_opened={"b.test": 300}))
    )
    times = [event.fields["times"] for event in [*found, *last] if event.name == "host_pause"]
    assert (7, 300) == (len(times), sum(times))


def test_the_network_that_is_down_and_up_again_is_two_events() -> None:
    events = Events(snapshot())
    assert ["network_down"] == names(events, network_down_s=1.0)
    assert [] == names(events, network_down_s=2.0)
    assert ["network_up"] == names(events)


def test_each_line_of_text_has_the_time_and_the_level() -> None:
    event = Event(name="note", message="one\ntwo \x1b[2J", level="warning")
    lines = as_text(event).splitlines()
    assert ["WARNING note: one", "WARNING note: two \\x1b[2J"] == [line.partition(" ")[2] for line in lines]
    assert "\x1b" not in as_json(event)
