"""The events of a run: one record each, which is written as a line of text or of JSON.

Those of the engine follow from its figures: each is what differs between two snapshots. So there are never more of them
than a snapshot has figures, however much happens: two commits between two snapshots are one event, which says so. Of
each host there is one event of a kind in ten seconds.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Literal, TypeAlias

from headgate import _format
from headgate._errors import HeadgateError, NotStarted
from headgate._message import Spell, spelled
from headgate._summary import MIN_STALL_S, CommitFigures, Snapshot, Summary

Level: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened to a run.

    Attributes:
        name: `start`, `after_kill`, `resume`, `note`, `progress`, `commit`, `set`, `pause`, `unpause`, `host_pause`,
            `breaker_open`, `breaker_closed`, `network_down`, `network_up`, `merge`, `keep`, `stall`, `stop` or `end`.
        message: It in words.
        level: How much it matters.
        fields: Its figures, for programs.
        is_shown: Whether it is also shown to a user who watches a live display, which has the figures anyway.
        at: When it was noticed.
    """

    name: str
    message: str
    level: Level = "info"
    fields: Mapping[str, Any] = field(default_factory=dict)
    is_shown: bool = False
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


def as_words(event: Event) -> str | None:
    """Returns the message alone, of an event that users see beside a live display; of others, nothing."""
    return event.message if event.is_shown or event.name == "progress" else None


def as_text(event: Event) -> str:
    """Returns the event as lines of text, each of which has the time and the level."""
    before = f"{_time(event)} {event.level.upper():7} {event.name}: "
    return "\n".join(before + _format.printable(line) for line in event.message.splitlines())


def as_json(event: Event) -> str:
    """Returns the event as a line of JSON."""
    record = {"time": _time(event), "level": event.level, "event": event.name, "message": event.message, **event.fields}
    return json.dumps(record, ensure_ascii=False, default=_format.rfc3339)


def _time(event: Event) -> str:
    return event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


WRITERS: Final[Mapping[str, Callable[[Event], str | None]]] = {"text": as_text, "json": as_json}
"""The formats of a log."""


HOST_EVENT_EVERY_S: Final = 10.0
"""The minimum interval of two events of the same kind of one host."""


class Events:
    """Finds the events of a run in its snapshots."""

    def __init__(self, first: Snapshot) -> None:
        """What has happened before the first snapshot is found with the next one."""
        self._before = replace(
            first, phase="starting", pauses={}, breakers_opened={}, open_breakers=0, network_down_s=None, stalled_s=0.0
        )
        self._of_hosts: dict[tuple[str, str], tuple[int, float]] = {}
        """The number of events of a kind of a host that were found, and when the last one was."""
        self._closed_at, self._has_closed = -inf, False

    def until(self, now: Snapshot) -> Iterator[Event]:
        """Yields what has happened until this snapshot since the last one."""
        before, self._before = self._before, now
        if (stalled_s := now.stalled_s - before.stalled_s) >= MIN_STALL_S:
            stopped = f"the process was stopped for {_format.seconds(stalled_s)}"
            yield Event(name="stall", message=stopped, level="warning", fields={"seconds": stalled_s}, is_shown=True)
        if now.commit is not None and before.commit is not None and now.commit.number > before.commit.number:
            yield _commit(before.commit, now.commit)
        if changed := {name: value for name, value in now.set.items() if before.set.get(name) != value}:
            shown = ", ".join(f"{name} {value}" for name, value in changed.items())
            yield Event(name="set", message=f"set: {shown}", fields={"set": changed})
        yield from _of_phases(before, now)
        yield from self._of_health(before, now)

    def _of_health(self, before: Snapshot, now: Snapshot) -> Iterator[Event]:
        opened = "the circuit breaker of {} has opened: it is only probed until it responds"
        yield from self._of_each_host("host_pause", "{} requested a pause", now.pauses, now)
        yield from self._of_each_host("breaker_open", opened, now.breakers_opened, now, level="warning")
        self._has_closed |= now.open_breakers < before.open_breakers
        if self._has_closed and _is_due(self._closed_at, now):
            self._closed_at, self._has_closed = now.elapsed_s, False
            left = f"a circuit breaker has closed; open ones: {now.open_breakers}"
            yield Event(name="breaker_closed", message=left, fields={"open_breakers": now.open_breakers})
        if now.network_down_s is not None and before.network_down_s is None:
            yield Event(name="network_down", message="no host can be reached", level="warning")
        elif now.network_down_s is None and before.network_down_s is not None:
            yield Event(name="network_up", message="hosts can be reached")

    def _of_each_host(
        self, name: str, message: str, counts: Mapping[str, int], now: Snapshot, *, level: Level = "info"
    ) -> Iterator[Event]:
        """Yields an event for each host that is counted more often than in its last event, if that is long ago."""
        for host, count in counts.items():
            found, found_at = self._of_hosts.get((name, host), (0, -inf))
            if count > found and _is_due(found_at, now):
                self._of_hosts[name, host] = (count, now.elapsed_s)
                fields = {"host": host, "times": count - found}
                yield Event(name=name, message=message.format(host), level=level, fields=fields)


def _is_due(last_s: float, now: Snapshot) -> bool:
    return now.phase == "ended" or now.elapsed_s - last_s >= HOST_EVENT_EVERY_S


def _of_phases(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    if now.phase == "paused" != before.phase:
        yield Event(name="pause", message="paused: no more requests are started")
    elif before.phase == "paused" and now.phase in {"starting", "running", "waiting"}:
        yield Event(name="unpause", message="no longer paused")
    if now.phase == "merging" != before.phase:
        yield Event(name="merge", message="all rows are done, and small files are merged")
    if now.phase == "keeping" != before.phase:
        yield Event(name="keep", message="all results are committed, and replaced files are kept for readers")
    if now.stopping and not before.stopping:
        yield Event(name="stop", message="stopping: no more rows are started", fields={"in_flight": now.in_flight})


def _commit(before: CommitFigures, now: CommitFigures) -> Event:
    files = f"{_format.plural(now.parts, 'file')}, {_format.size(now.bytes)}"
    message = (
        f"commit {now.number}: {_format.plural(now.done, 'row')} done, {_format.count(now.failed)} failed; {files}"
    )
    return Event(name="commit", message=message, fields=asdict(now) | {"commits": now.number - before.number})


def not_started(error: HeadgateError | NotStarted, spell: Spell) -> Event:
    """Returns the event of the end of a run that could not start."""
    message = spelled(error.pieces, spell) if isinstance(error, HeadgateError) else str(error)
    return Event(name="end", message=message, level="error", fields={"error": type(error).__name__})


def ended(summary: Summary) -> Event:
    """Returns the event of the end of a run."""
    early = summary.stopped_early or summary.failure is not None
    why = summary.failure.message if summary.failure is not None else summary.stopped_by
    rows = f"{_format.plural(summary.rows, 'row')} in {_format.duration(summary.elapsed_s)}"
    message = f"{'stopped early' if early else 'done'}: {rows}, {_format.count(summary.failed)} failed"
    level: Level = "error" if why is not None else "warning" if early or summary.has_failed_rows else "info"
    return Event(
        name="end", message=message if why is None else f"{message}: {why}", level=level, fields=summary.to_dict()
    )
