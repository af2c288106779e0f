"""Made-up trials of the benchmark."""

from typing import Any

from harness.trial import Trial


def trial(client: str, round_: int, requests_per_s: float, **other: Any) -> Trial:
    """Returns a trial of a second with 1,000 requests."""
    made: dict[str, Any] = {
        "scenario": "throughput",
        "concurrency": 64,
        "requests": 1000,
        "elapsed_s": 1.0,
        "wall_s": 1.1,
        "cpu_s": 1.0,
        "peak_rss_bytes": 1,
        "server_requests": 1000,
        "server_connections": 64,
        "server_cpu_s": 1.0,
    }
    return Trial(client=client, round=round_, requests_per_s=requests_per_s, **(made | other))
