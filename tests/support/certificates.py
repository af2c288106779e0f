"""Certificates for servers on this machine, made by the program `openssl`."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.programs import program

# A leaf and no authority: clients would refuse a trusted authority as the certificate of a server.
_CONFIG: Final = """\
[req]
distinguished_name = name
x509_extensions = leaf
prompt = no
[name]
CN = localhost
[leaf]
basicConstraints = critical,CA:FALSE
subjectAltName = DNS:localhost,IP:127.0.0.1,IP:127.0.0.2,IP:::1
"""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate for localhost, 127.0.0.1, 127.0.0.2 and ::1.

    Attributes:
        file: The certificate in PEM.
        key: Its key in PEM.
    """

    file: Path
    key: Path


def certificate(directory: Path) -> Certificate:
    """Makes a certificate in `directory`."""
    made = Certificate(file=directory / "certificate.pem", key=directory / "key.pem")
    (directory / "openssl.conf").write_text(_CONFIG)
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files: list[str | Path] = ["-config", directory / "openssl.conf", "-out", made.file, "-keyout", made.key]
    subprocess.run(
        [program("openssl", "openssl"), "req", *options, *files], check=True, capture_output=True, timeout=30
    )
    return made
