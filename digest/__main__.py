"""Run the `digest` command as `python -m digest`."""

import sys

from digest import gc_control


def main() -> int:
    """Run one command; Ctrl-C during its imports exits with 130, without a traceback."""
    gc_control.pause_during_imports()
    try:
        from digest.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("digest: Stopped.\n")
        return 130
    finally:
        gc_control.skip_final_collection()


if __name__ == "__main__":
    sys.exit(main())
