"""`headgate.ray.fetch`: a dataset in, a dataset of results out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

from headgate.batches._options import StageKeywords
from headgate.batches._stage import Stage, stage_options
from headgate.ray._fetch import Fetch

if TYPE_CHECKING:
    from ray.data import Dataset

_OPTIONS: Final = stage_options("fetch")

_TASKS_AT_ONCE: Final = 4
"""Of one worker: where tasks are done one by one, requests of the next one wait for the slowest of the one before."""


@_OPTIONS.shown_by
def fetch(  # noqa: PLR0913 - those of Ray, by their names
    dataset: "Dataset",
    *,
    workers: int = 1,
    num_cpus: float = 0.25,
    batch_size: int = 1024,
    task_rows: int = 16_384,
    ray_options: Mapping[str, Any] | None = None,
    **options: Unpack[StageKeywords],
) -> "Dataset":
    """Makes one request for each row of a dataset of Ray Data. The results are a dataset, too.

    >>> dataset = ray.data.from_items([{"id": 7}])
    >>> results = headgate.ray.fetch(dataset, url="http://127.0.0.1:8080/bytes/{id}", concurrency=100)
    >>> results.select_columns(["id", "status", "body_bytes"]).take_all()
    [{'id': 7, 'status': 200, 'body_bytes': 7}]

    A request that fails is a row of the results, with its `error` or a status in `fail_on`, not an exception. It is
    `dataset.map_batches(headgate.ray.Fetch, ...)` with what such a stage needs: tasks of a known size, batches of Arrow
    that overlap, and actors that ask for a part of a CPU, as those that ask for all of them keep readers from starting.

    Args:
        dataset: Has the columns that the options name.
        workers: How many processes (actors) make requests. Each has its own limits: `concurrency=100` with two of them
            is 200 in flight.
        num_cpus: What each reserves of the cluster. One worker thread can make tens of thousands of requests a second.
        batch_size: Rows requested and returned together. Their results are in memory until the last one is done.
        task_rows: Rows of one task of Ray. If a worker dies, Ray repeats its tasks, and keeps the blocks that they have
            already returned: each row is there once as long as the results of a task fit into one block of Ray, of
            128 MiB (`target_max_block_size`). That is 8 KiB for each row: if answers are larger, give fewer rows. Each
            worker logs a warning, once, when results are too large.
        ray_options: Other arguments of `map_batches`, such as `{"resources": {"egress": 1}}`.
        **options: `help(headgate.ray.fetch)` describes each with its default.

    Returns:
        A dataset that makes the requests when it is read: again, if it is read again. It has the columns of the results
        of `headgate.fetch` and those of the input. The column `row` is the position in a batch, not in the dataset:
        keep a column that tells rows apart.

    Raises:
        UsageError: An option can't be; all mistakes are named.
        TypeError: There is no such option; named is the one that is meant.
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
