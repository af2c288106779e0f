from collections.abc import Sequence
from os import PathLike
from typing import Final, NoReturn, final

__all__ = [
    "DEBUG_BUILD",
    "ERROR_KINDS",
    "JOB_OPTIONS",
    "OPTION_NAMES",
    "RowBatch",
    "RowBatches",
    "RowSchema",
    "RowStream",
    "Run",
    "Server",
    "__version__",
    "give_back_large_blocks",
    "job_rows",
    "job_status",
    "options_as_read",
    "plan",
    "preview",
]

__version__: Final[str]
DEBUG_BUILD: Final[bool]
ERROR_KINDS: Final[list[tuple[str, str]]]
JOB_OPTIONS: Final[list[str]]
OPTION_NAMES: Final[list[str]]

@final
class Run:
    def __new__(cls, options: object) -> Run: ...
    @staticmethod
    def retry(options: object) -> Run: ...
    def wait(self, timeout_s: float) -> bool: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...
    def snapshot(self) -> str: ...
    def summary(self) -> str: ...

@final
class Server:
    def __new__(
        cls,
        *,
        host: str,
        port: int,
        threads: int | None,
        delay: tuple[float, float],
        delay_whole: bool,
        body_bytes: int | None,
        status: int,
        seed: int,
    ) -> Server: ...
    @property
    def address(self) -> str: ...
    def stop(self) -> None: ...

@final
class RowStream:
    def __new__(cls, parts: Sequence[str | PathLike[str]]) -> RowStream: ...
    @property
    def schema(self) -> RowSchema: ...
    def __iter__(self) -> RowBatches: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __array__(self, dtype: object = None, *, copy: object = None) -> NoReturn: ...

@final
class RowBatches:
    def __iter__(self) -> RowBatches: ...
    def __next__(self) -> RowBatch: ...

@final
class RowBatch:
    @property
    def num_rows(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class RowSchema:
    def __arrow_c_schema__(self) -> object: ...

def give_back_large_blocks() -> None: ...
def job_rows(output: str) -> RowStream: ...
def job_status(output: str, check_all: bool) -> str: ...
def options_as_read(options: object) -> str: ...
def plan(options: object, latency_s: float | None) -> str: ...
def preview(path: str, rows: int, only_failed: bool) -> tuple[list[str], list[list[str | None]], int | None]: ...
