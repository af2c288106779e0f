"""An item on its way through a paced flow, and the gate that its key is."""

from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class Entry:
    """An item, and how far it is."""

    __slots__ = ("attempts", "began_s", "has_slot", "has_token", "index", "is_late", "item", "key", "started_at")

    def __init__(self, index: int, item: Any) -> None:  # noqa: ANN401 - the user's type
        self.index = index
        self.item = item
        self.key: Hashable = None
        self.has_slot = False
        self.has_token = False
        self.is_late = False
        self.attempts = 0
        self.began_s = 0.0
        self.started_at: datetime | None = None


class Keys:
    """Lets at most so many of one key in; the others are held, in their order. A key without any is forgotten."""

    def __init__(self, per_key: int) -> None:
        self._per_key = per_key
        self._inside: dict[Hashable, int] = {}
        self._held: dict[Hashable, deque[Entry]] = {}
        self._freed: deque[Entry] = deque()  # were held, and have a place now
        self.waiting = 0
        """How many are held, or freed and not yet taken."""

    def enter(self, entry: Entry) -> bool:
        """Takes a place for it, or holds it."""
        inside = self._inside.get(entry.key, 0)
        if inside < self._per_key:
            self._inside[entry.key] = inside + 1
            return True
        self._held.setdefault(entry.key, deque()).append(entry)
        self.waiting += 1
        return False

    def leave(self, key: Hashable) -> None:
        """Gives a place back; the next one of that key has it now."""
        held = self._held.get(key)
        if held is not None:
            self._freed.append(held.popleft())
            if not held:
                del self._held[key]
        elif self._inside[key] > 1:
            self._inside[key] -= 1
        else:
            del self._inside[key]

    def take_freed(self) -> Entry | None:
        """One that was held and has a place now."""
        if not self._freed:
            return None
        self.waiting -= 1
        return self._freed.popleft()

    def drop(self, is_dropped: Callable[[Entry], bool]) -> list[Entry]:
        """Takes out those that wait and are meant."""
        dropped: list[Entry] = []
        for key, held in tuple(self._held.items()):
            dropped += filter(is_dropped, held)
            self._held[key] = deque(entry for entry in held if not is_dropped(entry))
            if not self._held[key]:
                del self._held[key]
        freed, self._freed = self._freed, deque()
        for entry in freed:
            if is_dropped(entry):
                dropped.append(entry)
                self.leave(entry.key)
            else:
                self._freed.append(entry)
        self.waiting -= len(dropped)
        return dropped
