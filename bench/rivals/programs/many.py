"""Runs `headgate.Client` with many requests, from a generator of URLs, and gets one response after another."""

import headgate
from rivals.programs import Counted


def run(_client: str, url: str, requests: int, concurrency: int) -> Counted:
    """Looks at each response; the only client here."""
    urls, counted = (f"{url}/{number}" for number in range(1, requests + 1)), Counted()
    with headgate.Client(concurrency=concurrency) as client:
        for outcome in client.fetch_many(urls):
            response = outcome.unwrap()
            counted.add(response.status_code, len(response.content))
    return counted
