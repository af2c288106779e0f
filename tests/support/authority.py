"""A certificate authority, made by the program `openssl`."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.programs import program


class Authority:
    """Issues certificates for servers and for clients.

    Attributes:
        file: Its own certificate, in PEM.
    """

    def __init__(self, directory: Path) -> None:
        self._openssl = program("openssl", "openssl")
        self._directory = directory
        self.file = self._make("authority", ["-subj", "/CN=an authority of tests"])

    def certify(self, name: str) -> Path:
        """Returns a file with a certificate for this hostname and 127.0.0.1, and its key."""
        signer: list[str | Path] = ["-CA", self.file, "-CAkey", self._directory / "authority.key"]
        names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
        extensions = ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"]
        given = self._make(name, [*signer, "-subj", f"/CN={name}", *extensions])
        whole = self._directory / f"{name}.whole.pem"
        whole.write_text(given.read_text() + given.with_suffix(".key").read_text())
        return whole

    def _make(self, name: str, options: Sequence[str | Path]) -> Path:
        path = self._directory / f"{name}.pem"
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        out: list[str | Path] = ["-out", path, "-keyout", path.with_suffix(".key"), "-days", "30"]
        command = [self._openssl, "req", "-x509", *new_key, *out, *options]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        return path
