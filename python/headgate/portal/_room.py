"""How many may be there at once, where threads wait for room: a semaphore that costs a fraction of threading's own."""

from _thread import LockType, allocate_lock
from collections import deque


class Room:
    """A number of places. Taken by any thread, which waits; given back by any thread, which does not."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = allocate_lock()
        self._waiting: deque[LockType] = deque()

    def take(self) -> None:
        """Takes a place; waits until there is one, behind those who came before. Interrupted, it has taken none."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = allocate_lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:
            with self._lock:
                is_mine = turn not in self._waiting
                if not is_mine:
                    self._waiting.remove(turn)
            if is_mine:
                self.give_back()
            raise

    def give_back(self) -> None:
        """To who has waited longest, if somebody waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
