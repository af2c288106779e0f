"""The command `headgate`, also as `python -m headgate`."""

import sys

# `signal` imports `enum`, and Ctrl-C meanwhile would print a traceback.
from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found] # it has no stub


def main() -> int:
    """Runs the command line of this process."""
    # Until the command line is read, Ctrl-C has nothing to stop, and ends the process without a traceback.
    signal(SIGINT, SIG_DFL)
    from headgate.cli import main as run  # noqa: PLC0415 - not before the line above

    return run()


if __name__ == "__main__":
    sys.exit(main())
