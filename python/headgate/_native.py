"""The engine. No other module imports `headgate._headgate`."""

import warnings

from headgate._headgate import (
    COMMIT as COMMIT,
    DEBUG_BUILD,
    ERROR_KINDS as ERROR_KINDS,
    TARGET as TARGET,
    BatchFlow as BatchFlow,
    BatchRuns as BatchRuns,
    BatchTable as BatchTable,
    Client as Client,
    CompletionQueue as CompletionQueue,
    CookieJar as CookieJar,
    MockConnection as MockConnection,
    MockNetwork as MockNetwork,
    NativeAttempt as NativeAttempt,
    NativeCall as NativeCall,
    NativeOutcome as NativeOutcome,
    ResponseStream as ResponseStream,
    RowBatch as RowBatch,
    RowSchema as RowSchema,
    RowStream as RowStream,
    Run as Run,
    Server as Server,
    UploadStream as UploadStream,
    VirtualClock as VirtualClock,
    Working as Working,
    __version__ as __version__,
    is_credential as is_credential,
    job_clean as job_clean,
    job_files as job_files,
    job_report as job_report,
    job_rows as job_rows,
    job_set as job_set,
    job_status as job_status,
    job_verify as job_verify,
    mistakes_in_fetch as mistakes_in_fetch,
    mistakes_in_retry as mistakes_in_retry,
    mistakes_in_settings as mistakes_in_settings,
    option_entries as option_entries,
    parse_seconds as parse_seconds,
    plan as plan,
    preview as preview,
    pull as pull,
)

if DEBUG_BUILD:
    warnings.warn(
        "this headgate is a debug build, many times slower than a release build: build it with `make build`",
        RuntimeWarning,
        stacklevel=2,
    )
