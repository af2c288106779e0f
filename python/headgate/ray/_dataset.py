"""`headgate.ray.fetch`, which makes a dataset of results from a dataset."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

from headgate.batches._options import StageKeywords
from headgate.batches._stage import Stage, stage_options
from headgate.ray._fetch import Fetch

if TYPE_CHECKING:
    from ray.data import Dataset

_OPTIONS: Final = stage_options("fetch")

_TASKS_AT_ONCE: Final = 4
"""The tasks of one worker: with one task at a time, the next requests would wait for the slowest of the previous."""


@_OPTIONS.shown_by
def fetch(  # noqa: PLR0913 - the arguments of Ray
    dataset: "Dataset",
    *,
    workers: int = 1,
    num_cpus: float = 0.25,
    batch_size: int = 1024,
    task_rows: int = 16_384,
    ray_options: Mapping[str, Any] | None = None,
    **options: Unpack[StageKeywords],
) -> "Dataset":
    """Makes one request for each row of a dataset of Ray Data, and returns a dataset of the results.

    >>> dataset = ray.data.from_items([{"id": 7}])
    >>> results = headgate.ray.fetch(dataset, url="http://127.0.0.1:8080/bytes/{id}", concurrency=100)
    >>> results.select_columns(["id", "status", "received_bytes"]).take_all()
    [{'id': 7, 'status': 200, 'received_bytes': 7}]

    A request that fails is a row of the results, with its `error` or a status in `fail_on`, not an exception. It is
    `dataset.map_batches(headgate.ray.Fetch, ...)` with the arguments that such a stage needs: tasks of a known size,
    batches of Arrow that overlap, and actors that reserve a part of a CPU, because actors that reserve all CPUs keep
    readers from starting.

    Args:
        dataset: A dataset with the columns that the options name.
        workers: How many processes (actors) make requests. Each has its own limits: `concurrency=100` with two of them
            is 200 in flight.
        num_cpus: The CPUs that each actor reserves. One worker thread can make tens of thousands of requests a second.
        batch_size: Rows requested and returned together. Their results are in memory until the last one is done.
        task_rows: Rows of one task of Ray. If a worker dies, Ray repeats its tasks, and keeps the blocks that they have
            already returned: each row occurs once as long as the results of a task fit into one block of Ray, of
            128 MiB (`target_max_block_size`). That is 8 KiB for each row: if responses are larger, give fewer rows.
            Each worker logs a warning, once, when results are too large.
        ray_options: Other arguments of `map_batches`, such as `{"resources": {"egress": 1}}`.
        **options: `help(headgate.ray.fetch)` describes each with its default.

    Returns:
        A dataset that makes the requests each time it is read. It has the columns of the results of `headgate.fetch`
        and those of the input. The column `row` is the position in a batch, not in the dataset: keep a column that
        identifies rows.

    Raises:
        UsageError: An option has an invalid value; the message has all mistakes.
        TypeError: There is no such option; the message has the one that is probably meant.
    """
    stage = Stage(_OPTIONS, options)
    from ray.data import ActorPoolStrategy  # noqa: PLC0415 - optional

    return dataset.repartition(target_num_rows_per_block=task_rows).map_batches(
        Fetch,
        fn_constructor_args=(stage, task_rows),
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=num_cpus,
        compute=ActorPoolStrategy(size=workers, max_concurrent_calls_per_actor=_TASKS_AT_ONCE),
        **(ray_options or {}),
    )
