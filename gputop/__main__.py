"""The command line."""

from __future__ import annotations

import errno
import os
import sys

from gputop import __version__


def main() -> None:
    """Entry point of the `gputop` script; ends the process."""
    try:
        if sys.argv[1:] == ["--version"] and _print_version():
            return
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # Ctrl+C came before `run` could handle it.
        sys.exit(130)


def _print_version() -> bool:
    """Print the version; False if that fails, which `run` then reports.

    Asked often and by scripts: no import beyond the package itself.
    """
    try:
        sys.stdout.write(f"gputop {__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        return False
    return True


def run(arguments: list[str]) -> int:
    """Run one command line; returns an exit code of `exits.py` and never raises."""
    from contextlib import suppress

    from gputop.exits import ANSWERED, CANNOT_TELL, INTERRUPTED, OWN_ERROR, Exit
    from gputop.terminal.clean import clean

    try:
        return _dispatch(arguments)
    except Exit as end:
        text, code = str(end), end.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`gputop topo | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ANSWERED
    except Exception as error:
        # The border of the program: one line, not a traceback.
        if os.environ.get("GPUTOP_DEBUG"):
            raise
        text = f"{type(error).__name__}: {error} (our fault; GPUTOP_DEBUG=1 shows where)"
        code = OWN_ERROR
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            text, code = f"cannot write the answer: {error.strerror}", CANNOT_TELL
    # Nobody may be left to read it; Python's own end would say 1, which here means slow.
    with suppress(AttributeError, OSError):
        sys.stderr.write(f"gputop: {clean(text, 600)}\n")
    return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        # The plain case is the one that has to be quick: it needs no command line library.
        from gputop.session import open_app

        return open_app()
    import gc
    from contextlib import suppress

    import click

    # What a command makes it keeps: the collector would look at all of it a thousand times.
    gc.set_threshold(20_000, 10, 10)
    from gputop.commands.root import root
    from gputop.exits import ANSWERED, INTERRUPTED, USAGE

    try:
        code = root.main(arguments, prog_name="gputop", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except SystemExit:
        # click exits with 1 when the reader of our output has gone.
        return ANSWERED
    except click.ClickException as error:
        # With nobody there to read it, it stays a wrong usage.
        with suppress(OSError):
            error.show()
        return USAGE
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
