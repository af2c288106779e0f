"""The one door to the engine: `headgate._headgate` is imported here and nowhere else."""

import warnings

from headgate._headgate import (
    DEBUG_BUILD,
    ERROR_KINDS,
    Answer,
    BatchFlow,
    BatchRuns,
    BatchTable,
    Client,
    Mailbox,
    MockConnection,
    MockNetwork,
    ResponseStream,
    RowBatch,
    RowSchema,
    RowStream,
    Run,
    Server,
    job_rows,
    job_set,
    job_status,
    mistake_in,
    mistake_in_host,
    plan,
    preview,
)

__all__ = [
    "ERROR_KINDS",
    "Answer",
    "BatchFlow",
    "BatchRuns",
    "BatchTable",
    "Client",
    "Mailbox",
    "MockConnection",
    "MockNetwork",
    "ResponseStream",
    "RowBatch",
    "RowSchema",
    "RowStream",
    "Run",
    "Server",
    "job_rows",
    "job_set",
    "job_status",
    "mistake_in",
    "mistake_in_host",
    "plan",
    "preview",
]

if DEBUG_BUILD:
    warnings.warn(
        "this headgate is a debug build, many times slower than a release build: build it with `make build`",
        RuntimeWarning,
        stacklevel=2,
    )
