from typing import Final, final

from headgate._options import FetchOptions

__all__ = ["DEBUG_BUILD", "ERROR_KINDS", "Job", "Server", "__version__", "preview"]

__version__: Final[str]
DEBUG_BUILD: Final[bool]
ERROR_KINDS: Final[list[tuple[str, str]]]

@final
class Job:
    def __new__(cls, options: FetchOptions) -> Job: ...
    def wait(self, timeout_s: float) -> bool: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...
    def snapshot(self) -> str: ...
    def finish(self) -> str: ...

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

def preview(path: str, rows: int) -> tuple[list[str], list[list[str | None]], int | None]: ...
