"""Run the `digest` command as `python -m digest`."""

import os
import sys

from digest.process import gc_control


def main() -> int:
    """Run one command; Ctrl-C during its imports exits with 130, without a traceback."""
    open_standard_streams()
    gc_control.pause_during_imports()
    try:
        from digest.cli import main as run

        return run()
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_ctrl_c(error):
            raise
        sys.stderr.write("digest: Stopped.\n")
        return 130
    finally:
        gc_control.skip_final_collection()
        flush_output()


def open_standard_streams() -> None:
    """Open the standard streams that the caller closed; otherwise the database could get the number of the output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def flush_output() -> None:
    """Write what is left; if the reader of a pipe is gone, drop it, so that Python does not report it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether Ctrl-C was the cause; Python 3.11 wraps it in RuntimeError while a class is created."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


if __name__ == "__main__":
    sys.exit(main())
