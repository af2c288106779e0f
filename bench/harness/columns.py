"""The columns of tables: figures of the trials of one client."""

from collections.abc import Callable, Sequence
from typing import Final

from harness import tables
from harness.trial import Trial, cpu_s_per_request, right

REQUESTS_PER_S: Final = "requests/s"
RANGE: Final = "lowest to highest"
CPU_US: Final = "CPU µs a request"
USER_US: Final = "of which user"
CLIENT_BUSY: Final = "its core busy"
SERVER_BUSY: Final = "server's core busy"
CONNECTIONS: Final = "connections for 1,000 requests"
PEAK_MB: Final = "peak MB"
TRIALS: Final = "trials"


def _median(figure: Callable[[Trial], float], form: str) -> Callable[[Sequence[Trial]], str]:
    return lambda trials: tables.number(tables.median(map(figure, right(trials))), form)


def _range(trials: Sequence[Trial]) -> str:
    rates = [trial.requests_per_s for trial in right(trials)]
    return f"{min(rates):,.0f} to {max(rates):,.0f}" if rates else tables.ABSENT


_COLUMNS: Final[dict[str, Callable[[Sequence[Trial]], str]]] = {
    REQUESTS_PER_S: _median(lambda trial: trial.requests_per_s, ",.0f"),
    RANGE: _range,
    CPU_US: _median(lambda trial: 1e6 * cpu_s_per_request(trial), ".1f"),
    USER_US: _median(lambda trial: 1e6 * (trial.user_cpu_s or 0) / trial.requests, ".1f"),
    CLIENT_BUSY: _median(lambda trial: trial.cpu_s / trial.wall_s, ".0%"),
    SERVER_BUSY: _median(lambda trial: trial.server_cpu_s / trial.wall_s, ".0%"),
    CONNECTIONS: _median(lambda trial: 1_000 * trial.server_connections / trial.requests, ".0f"),
    PEAK_MB: _median(lambda trial: tables.mb(trial.peak_rss_bytes), ".1f"),
    TRIALS: tables.counted,
}


def figures(trials: Sequence[Trial], *columns: str) -> list[str]:
    """Returns medians of the trials that count, in the order of the columns."""
    return [_COLUMNS[column](trials) for column in columns]
