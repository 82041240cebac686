"""Run the `digest` command as `python -m digest`."""

import sys


def main() -> int:
    """Run one command; Ctrl-C during its imports exits with 130, without a traceback."""
    try:
        from digest.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("digest: Stopped.\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
