"""The version, as the installed package knows it. It is written only in Cargo.toml."""

from importlib.metadata import version

__version__ = version("headgate")
