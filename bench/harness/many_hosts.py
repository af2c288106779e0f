"""Many hosts on one machine: addresses of the loopback network, which a row each asks in turn."""

from itertools import cycle, islice
from pathlib import Path
from typing import Final

HOSTS: Final = 1_000


def addresses(hosts: int = HOSTS) -> list[str]:
    """All of one length, and 127.0.0.1 is none of them."""
    return [f"127.0.{index // 100}.{100 + index % 100}" for index in range(hosts)]


def urls(hosts: int, port: int) -> list[str]:
    """One for each host. The path is none that a server knows, so that it answers shortly."""
    return [f"http://{address}:{port}/row" for address in addresses(hosts)]


def write(path: Path, hosts: int, port: int, rows: int) -> None:
    """A line for each row, the hosts in turn."""
    with path.open("w") as lines:
        lines.writelines(f"{url}\n" for url in islice(cycle(urls(hosts, port)), rows))
