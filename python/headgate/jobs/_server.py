"""The local server to rehearse against, in this process."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate._native import Server

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_STATUS: Final = 200
DEFAULT_SEED: Final = 0


def start_server(  # noqa: PLR0913 - one for each flag of `headgate serve`
    *,
    host: str = DEFAULT_HOST,
    port: int = 0,
    threads: int | None = None,
    delay_s: tuple[float, float] = (0.0, 0.0),
    delay_whole: bool = False,
    body_bytes: int | None = None,
    status: int = DEFAULT_STATUS,
    seed: int = DEFAULT_SEED,
) -> "Server":
    """Starts the server on threads of its own.

    Args:
        host: The address to listen at.
        port: 0 takes a free one.
        threads: Worker threads; `None`: one for each core.
        delay_s: Least and longest time before an answer, drawn evenly.
        delay_whole: Draw whole seconds.
        body_bytes: Length of the body; `None` says hello.
        status: The status of each answer.
        seed: Of the delays.

    Returns:
        The running server; it knows its `address` and stops at `stop()`.

    Raises:
        UsageError: It can't be: the port is taken, or an option makes no sense.
    """
    from headgate._native import Server  # noqa: PLC0415 - the defaults above are needed where the engine is not

    return Server(
        host=host,
        port=port,
        threads=threads,
        delay=delay_s,
        delay_whole=delay_whole,
        body_bytes=body_bytes,
        status=status,
        seed=seed,
    )
