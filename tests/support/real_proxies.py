"""Well-known proxies, on free ports of loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.programs import free_port, program, running


@contextmanager
def tinyproxy(directory: Path, *lines: str) -> Iterator[str]:
    """Runs a proxy for HTTP; yields `127.0.0.1:PORT`. `lines` are added to its configuration."""
    found, port = program("tinyproxy", "tinyproxy"), free_port()
    config = directory / f"tinyproxy-{port}.conf"
    config.write_text("\n".join([f"Port {port}", "Listen 127.0.0.1", "Timeout 60", "MaxClients 100", *lines, ""]))
    with running([found, "-d", "-c", config], log=directory / "tinyproxy.log", ports=[port]):
        yield f"127.0.0.1:{port}"


@contextmanager
def microsocks(directory: Path, *options: str) -> Iterator[str]:
    """Runs a proxy for SOCKS5; yields `127.0.0.1:PORT`."""
    found, port = program("microsocks", "microsocks"), free_port()
    command = [found, "-i", "127.0.0.1", "-p", str(port), *options]
    with running(command, log=directory / "microsocks.log", ports=[port]):
        yield f"127.0.0.1:{port}"


@contextmanager
def haproxy(directory: Path, certificate: Path, behind: str, *, mode: str) -> Iterator[int]:
    """Terminates TLS for the server at `behind`, and forwards HTTP (mode `http`) or bytes (`tcp`); yields its port."""
    found, port = program("haproxy", "haproxy"), free_port()
    config = directory / f"haproxy-{port}.cfg"
    config.write_text(
        f"defaults\n  mode {mode}\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n"
        f"listen tls\n  bind 127.0.0.1:{port} ssl crt {certificate}\n  server one {behind}\n"
    )
    with running([found, "-db", "-f", config], log=directory / f"haproxy-{port}.log", ports=[port]):
        yield port
