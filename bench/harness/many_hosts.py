"""Many hosts on one machine: addresses of the loopback network, in turn or in random order."""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Literal

HOSTS: Final = 1_000
_OF_NETWORK: Final = 25_000
"""The number of addresses that are used of one 127.x.0.0/16."""
_SEED: Final = 27

Order = Literal["in turn", "random"]


def addresses(hosts: int = HOSTS) -> list[str]:
    """Returns addresses without 127.0.0.1; up to 1,000 all have the same length."""
    return [f"127.{index // _OF_NETWORK}.{index % _OF_NETWORK // 100}.{100 + index % 100}" for index in range(hosts)]


def urls(hosts: int, port: int) -> list[str]:
    """Returns a URL for each host, with a path that no server knows, so that responses are short."""
    return [f"http://{address}:{port}/row" for address in addresses(hosts)]


def rows(hosts: int, port: int, count: int, order: Order = "in turn") -> Iterator[str]:
    """Yields a URL for each row, equally many for each host; a random order is the same each time."""
    in_turn = islice(cycle(urls(hosts, port)), count)
    if order == "in turn":
        return in_turn
    shuffled = list(in_turn)
    random.Random(_SEED).shuffle(shuffled)  # noqa: S311 - nothing here is a secret
    return iter(shuffled)


def write(path: Path, hosts: int, port: int, count: int, order: Order = "in turn") -> None:
    """Writes a line for each row."""
    with path.open("w") as lines:
        lines.writelines(f"{url}\n" for url in rows(hosts, port, count, order))
