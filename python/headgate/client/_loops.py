"""The answers to requests of one event loop: many at a time, by one descriptor that the loop watches."""

import asyncio
import threading
from typing import Final
from weakref import WeakKeyDictionary

from headgate._native import Answer
from headgate.batches._supply import LOOK_S, soon_in
from headgate.client._engine import Engine
from headgate.client._request import Native
from headgate.jobs._notebook import in_turns

_MOST_TAKEN: Final = 1024
"""Answers that are taken in one turn of the loop."""


class LoopAnswers:
    """What a loop waits for. Used in its thread only.

    It refers to the loop while something is awaited, and not after that: it is kept as long as the loop is there.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        mailbox = engine.native.mailbox(watched=True)
        self.mailbox = mailbox if mailbox is not None else engine.refuse()
        self._engine = engine
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._is_watched = True
        self._looks = False
        self._is_left = False
        loop.add_reader(self.mailbox.fileno(), self.take_in)
        self.take_in()

    async def ask(self, request: Native) -> Answer:
        """The answer. Cancelling this cancels the exchange."""
        number = self._number
        self._number += 1
        ordinal = self.mailbox.feed(number, [request])
        if ordinal is None:
            self._engine.refuse()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting[number] = future
        if not self._looks:
            self._looks = True
            loop.call_later(LOOK_S, self._look)
        try:
            return await in_turns(future)
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None and ordinal is not None:
                self.mailbox.cancel(ordinal)
            self._retire_if_left(loop)
            raise

    def take_in(self) -> None:
        """Sets the futures of the answers that have arrived."""
        self._take()
        if self._is_left:
            self._retire_if_left(asyncio.get_running_loop())

    def _take(self) -> bool:
        """Whether anything had come."""
        arrived = self.mailbox.take(_MOST_TAKEN)[0]
        for number, answer in arrived:
            future = self._waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(answer)
        return bool(arrived)

    def _retire_if_left(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_left and not self._waiting:
            self.retire(loop)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Does not watch any more once what is waited for has come: nothing more is asked here."""
        self._is_left = True
        self._retire_if_left(loop)

    def _look(self) -> None:
        """What is awaited may wait for memory that outcomes of `fetch_many` have, which no task takes meanwhile."""
        self._looks = bool(self._waiting) and self._is_watched
        if self._looks:
            self.mailbox.release_memory()
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def retire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes what has come, and does not watch any more. What is awaited still fails. Again: nothing."""
        if not self._is_watched:
            return
        self._is_watched = False
        loop.remove_reader(self.mailbox.fileno())
        while self._take():
            pass
        left, self._waiting = self._waiting, {}
        for future in left.values():
            if not future.done():
                try:
                    self._engine.refuse()
                except RuntimeError as refusal:
                    future.set_exception(refusal)


class Loops:
    """The answers of all loops that a client is used in. Any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process, self._changes = engine.process, engine.changes
        self._answers: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopAnswers] = WeakKeyDictionary()
        # Of each process, as those of `OpenStreams`. It is held where what is there changes, or is listed.
        self._locks: dict[int, threading.RLock] = {}

    def here(self) -> LoopAnswers:
        """Those of the loop that runs.

        Raises:
            RuntimeError: The client is closed.
        """
        loop = asyncio.get_running_loop()
        if self._engine.is_closed:
            self._engine.refuse()
        if self._changes != self._engine.changes:
            self._begin_anew()
        answers = self._answers.get(loop)
        return answers if answers is not None else self._begin(loop)

    def retire(self, here: asyncio.AbstractEventLoop | None = None) -> None:
        """Nothing is awaited any more in any of them; `here`: in this thread's at once."""
        if self._process == self._engine.process:
            for loop, answers in self._listed():
                if loop is here:
                    answers.retire(loop)
                else:
                    soon_in(loop, answers.retire, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> LoopAnswers:
        answers = LoopAnswers(self._engine, loop)
        with self._lock:
            # A loop that was closed while something was awaited is kept by that.
            for other in list(self._answers):
                if other.is_closed():
                    del self._answers[other]
            self._answers[loop] = answers
        return answers

    def _begin_anew(self) -> None:
        """In a fork, or where a mock has begun or ended: what was asked before is still waited for."""
        with self._lock:
            if self._changes == self._engine.changes:
                return  # another thread has done so
            left = self._listed() if self._process == self._engine.process else []
            self._answers = WeakKeyDictionary()
            self._process, self._changes = self._engine.process, self._engine.changes
        for loop, answers in left:
            soon_in(loop, answers.leave, loop)

    def _listed(self) -> list[tuple[asyncio.AbstractEventLoop, LoopAnswers]]:
        with self._lock:
            return list(self._answers.items())

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())
