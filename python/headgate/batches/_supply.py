"""What goes into a call: tables, as they are asked for."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from inspect import isgenerator
from typing import Final, NoReturn, Protocol

from headgate._native import BatchFlow

LOOK_S: Final = 0.1
"""Whoever has waited so long has others let go of memory that the engine may wait for."""

_ARROW: Final = ("__arrow_c_array__", "__arrow_c_stream__")


class Supply(Protocol):
    """What goes into a call.

    Attributes:
        decides_columns: Whether what comes first says which columns there are.
    """

    decides_columns: bool

    @property
    def failure(self) -> BaseException | None:
        """What taking it from the caller has raised. It is raised again when what came before is done."""

    def give(self, flow: BatchFlow) -> None:
        """Gives it the next, or says that there is none any more. Raises whatever the caller's own does."""

    def close(self) -> None:
        """Nothing is wanted any more."""


class Tables:
    """Tables, one after the other."""

    decides_columns = True

    def __init__(self, batches: object) -> None:
        """`batches`: one, or an iterable of them.

        Raises:
            TypeError: It is neither.
        """
        self._source = tables_of(batches)
        self.failure: Exception | None = None

    def give(self, flow: BatchFlow) -> None:
        """Gives the next table."""
        try:
            batch = next(self._source)
        except StopIteration:
            flow.end()
        except Exception as error:  # noqa: BLE001 - it is raised when what came before is done
            self.failure = error
            flow.end()
        else:
            flow.take_from(batch)

    def close(self) -> None:
        """Takes no more of them."""
        source, self._source, self.failure = self._source, iter(()), None
        close_source(source)


def close_source(source: object) -> None:
    """Closes a generator: its `finally` runs. What else there is stays as it is: its owner may go on with it.

    So does a generator that runs in this moment, whether it calls this itself or another thread reads it.
    """
    if isgenerator(source) and not source.gi_running:
        source.close()


def tables_of(batches: object) -> Iterator[object]:
    """One table, or all of an iterable.

    Raises:
        TypeError: It is neither.
    """
    if any(hasattr(batches, name) for name in _ARROW):
        return iter((batches,))
    if isinstance(batches, Iterable) and not isinstance(batches, str | bytes):
        return iter(batches)
    if isinstance(batches, AsyncIterable):
        return _refuse("an iterable of these, and one for `async for` is for amap_batches", batches)
    return _refuse("an iterable of these", batches)


def async_tables_of(batches: object) -> AsyncIterator[object] | Iterator[object]:
    """The same; the iterable may be asynchronous."""
    if isinstance(batches, AsyncIterable) and not any(hasattr(batches, name) for name in _ARROW):
        return aiter(batches)
    return tables_of(batches)


def _refuse(may_be: str, batches: object) -> NoReturn:
    raise TypeError(f"batches must be a table, a stream of record batches, or {may_be}, not {type(batches).__name__}")
