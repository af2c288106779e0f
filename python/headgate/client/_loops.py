"""The answers to requests of one event loop: many at a time, by one descriptor that the loop watches."""

import asyncio
from typing import Final

from headgate._native import Answer
from headgate.batches._supply import LOOK_S
from headgate.client._engine import Engine
from headgate.client._request import Native
from headgate.jobs._notebook import in_turns

MOST: Final = 1024
"""Answers that are taken in one turn of the loop."""


class LoopAnswers:
    """What a loop waits for. Used in its thread only."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        mailbox = engine.native.mailbox(watched=True)
        self.mailbox = mailbox if mailbox is not None else engine.refuse()
        self._engine = engine
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._is_watched = True
        self._timer: asyncio.TimerHandle | None = None
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
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look)
        try:
            return await in_turns(future)
        except asyncio.CancelledError:
            if number in self._waiting and ordinal is not None:
                self.mailbox.cancel(ordinal)
            raise

    def take_in(self) -> None:
        """Takes what has come to who waits for it."""
        for number, answer in self.mailbox.take(MOST)[0]:
            future = self._waiting.pop(number)
            if not future.done():
                future.set_result(answer)
        if self._is_left and not self._waiting:
            self.retire(asyncio.get_running_loop())

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Does not watch any more once what is waited for has come: nothing more is asked here."""
        self._is_left = True
        if not self._waiting:
            self.retire(loop)

    def _look(self) -> None:
        """What is awaited may wait for memory that outcomes of `fetch_many` have, which nobody takes meanwhile."""
        self._timer = None
        if self._waiting and self._is_watched:
            self.mailbox.give_memory_back()
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def retire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes what has come, and does not watch any more. Again: nothing."""
        if self._is_watched:
            self._is_watched = False
            loop.remove_reader(self.mailbox.fileno())
            self.take_in()
