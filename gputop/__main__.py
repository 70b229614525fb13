"""The command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the `gputop` script; ends the process."""
    if sys.argv[1:] == ["--version"]:
        # Asked often and by scripts: no import beyond the package itself.
        from gputop import __version__

        sys.stdout.write(f"gputop {__version__}\n")
        return
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; gives the exit code of product.md and never a traceback."""
    import click

    from gputop.commands.options import say
    from gputop.commands.root import root
    from gputop.exits import ANSWERED, INTERRUPTED, OWN_ERROR, USAGE, Exit

    try:
        code = root.main(arguments, prog_name="gputop", standalone_mode=False)
    except Exit as end:
        say(f"gputop: {end}")
        return end.code
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output left (`gputop topo | head`); nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ANSWERED
    except Exception as error:
        # The border of the program: one line, not a traceback.
        if os.environ.get("GPUTOP_DEBUG"):
            raise
        say(f"gputop: {type(error).__name__}: {error} (our fault; GPUTOP_DEBUG=1 shows where)")
        return OWN_ERROR
    return code if isinstance(code, int) else ANSWERED


if __name__ == "__main__":
    main()
