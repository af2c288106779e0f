"""`headgate.ray.Fetch`, which an actor of Ray Data calls with each batch.

When a worker dies, Ray keeps the blocks that its task has returned, repeats the task, and skips as many blocks of the
repeated one. So a task should return the same rows in the same order each time: results of a batch are in the order of
its rows, and are returned at once. Batches overlap nevertheless, because Ray starts the next ones meanwhile. Ray splits
blocks by their bytes, which differ between attempts: a task whose results are one block is not split.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from headgate import _format
from headgate.batches._batch_iterator import BatchIterator
from headgate.batches._options import StageKeywords
from headgate.batches._stage import Stage, stage_options

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS: Final = stage_options("Fetch")

_log = logging.getLogger("headgate.ray")

_ROW: Final = "row"
_MAX_BATCHES: Final = 64
"""Batches of one actor: Ray starts 4 of each task, and `headgate.ray.fetch` has 4 tasks. Further ones are queued."""

_MARGIN: Final = 2
"""Other batches may have larger rows than the one that a warning is about."""

_LARGE_BYTES: Final = 1 << 30
"""Above this, a text column may have more bytes than one array of Arrow can have."""


class Fetch:
    """Makes one request for each row of a batch: a callable class for `ray.data.Dataset.map_batches`.

    >>> dataset = ray.data.from_items([{"id": 7}])
    >>> results = dataset.map_batches(
    ...     headgate.ray.Fetch,
    ...     fn_constructor_kwargs={"url": "http://127.0.0.1:8080/bytes/{id}", "concurrency": 100},
    ...     batch_format="pyarrow",
    ...     batch_size=1024,
    ...     num_cpus=0.25,
    ...     compute=ray.data.ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=4),
    ... )
    >>> results.select_columns(["id", "status", "received_bytes"]).take_all()
    [{'id': 7, 'status': 200, 'received_bytes': 7}]

    `headgate.ray.fetch` does the same, and finds mistakes in options before a worker is started.

    Calls in one actor overlap: they share one engine, its connections and its limits, over all blocks.
    """

    def __init__(
        self, stage: Stage | None = None, task_rows: int | None = None, /, **options: Unpack[StageKeywords]
    ) -> None:
        """Creates the callable, in a worker.

        Args:
            stage: Options that were checked before, from `headgate.ray.fetch`.
            task_rows: Rows of a task, from `headgate.ray.fetch`; `None`: at least those of a batch.
            **options: `help(headgate.ray.fetch)` describes each with its default.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: There is no such option; the message has the one that is probably meant.
        """
        self._stage = stage or Stage(OPTIONS, options)
        self._task_rows = task_rows
        self._has_warned = False
        self._threads = ThreadPoolExecutor(_MAX_BATCHES, thread_name_prefix="headgate-batch")
        _raise_priority()

    async def __call__(self, batch: Any) -> "pa.Table":  # noqa: ANN401 - in each of Ray's formats
        """Returns the results of a batch, in the order of its rows. Cancelling it cancels its requests.

        Args:
            batch: A table of pyarrow or pandas, or a dict of arrays.

        Raises:
            InputError: A column that is needed is missing, or has a type that can't be used.
        """
        loop = asyncio.get_running_loop()
        with await loop.run_in_executor(self._threads, self._stage.begin, _table_of(batch)) as results:
            table = await loop.run_in_executor(self._threads, _in_order, results)
        self._warn_of_blocks(table)
        return table

    def _warn_of_blocks(self, table: "pa.Table") -> None:
        """Logs a warning, once, if the results of a task would be more than a block."""
        from ray.data import DataContext  # noqa: PLC0415 - a worker has Ray

        block_bytes = DataContext.get_current().target_max_block_size
        if self._has_warned or not block_bytes or not table.num_rows:
            return
        row_bytes = table.nbytes / table.num_rows
        task_rows = self._task_rows or table.num_rows
        if row_bytes * task_rows <= block_bytes:
            return
        self._has_warned = True
        fits = max(1, int(block_bytes / row_bytes / _MARGIN))
        _log.warning(
            "a row of results has %s here, so a task of %s rows has more than a block of Ray holds (%s): if a"
            " worker dies, rows can be there twice or be missing; give %s, or raise target_max_block_size of"
            " ray.data.DataContext",
            _format.size(int(row_bytes)),
            _format.count(task_rows),
            _format.size(block_bytes),
            f"task_rows={fits}" if self._task_rows else f"repartition(target_num_rows_per_block={fits})",
        )


def _raise_priority() -> None:
    """Gives each thread of this worker the nice level of its parent process, which is Ray's own.

    Ray runs its workers at nice 15, so that requests would time out on a busy machine. Raising the priority needs root,
    CAP_SYS_NICE or a limit (`RLIMIT_NICE`) that allows it. Otherwise the level stays, and users can start Ray with
    `RAY_worker_niceness=0` in its environment.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    try:
        for thread in Path("/proc/self/task").iterdir():
            if wanted < os.getpriority(os.PRIO_PROCESS, int(thread.name)):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), wanted)
    except PermissionError:
        _log.warning(
            "this worker stays at nice %s, below other processes: if requests time out, start Ray with"
            " RAY_worker_niceness=0 in its environment",
            os.getpriority(os.PRIO_PROCESS, 0),
        )
    except (ProcessLookupError, FileNotFoundError):
        pass  # the thread has ended meanwhile


def _table_of(batch: Any) -> Any:  # noqa: ANN401 - in each of Ray's formats
    if not isinstance(batch, Mapping):
        return batch
    from ray.data.block import BlockAccessor  # noqa: PLC0415 - a worker has Ray

    return BlockAccessor.batch_to_arrow_block(dict(batch))


def _in_order(results: BatchIterator) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - optional

    table = pa.table(results.table())
    order = table[_ROW].to_numpy().argsort()
    if table.nbytes < _LARGE_BYTES:
        return table.take(order)
    return pa.concat_tables(table.slice(row, 1) for row in order.tolist())
