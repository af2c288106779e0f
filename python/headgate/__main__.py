"""The command `headgate`, also as `python -m headgate`."""

import signal
import sys


def main() -> int:
    """Runs the command line of this process."""
    # Until the command line is read, Ctrl-C has nothing to stop, and ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headgate.cli import main as run  # noqa: PLC0415 - not before the line above

    return run()


if __name__ == "__main__":
    sys.exit(main())
