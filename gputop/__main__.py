"""The command line."""

from __future__ import annotations

import _thread
import os
import sys

import gputop


def main() -> None:
    """Entry point of the `gputop` script; ends the process."""
    code = 130
    try:
        if sys.version_info < (3, 10):  # noqa: UP036 - pip refuses older ones, a checkout meets them
            from gputop.installation import packages

            sys.exit(packages.refuse_python())
        if not hasattr(gputop, "DISTRIBUTION"):
            from gputop.installation import namesake

            sys.exit(namesake.give_up())
        gputop.own_process = True
        sys.unraisablehook = _interrupt_again
        if sys.argv[1:] == ["--version"] and _print_version():
            return
        beside = getattr(gputop.__spec__, "cached", None)
        if beside and not os.path.exists(beside):
            from gputop.installation import bytecode

            bytecode.keep()
        code = run(sys.argv[1:])
        import gc
        import signal

        # What Python does at its end is nobody's concern: Ctrl+C ends it without a traceback, and
        # the collector does not look for circles in what goes away with the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.freeze()
    except KeyboardInterrupt:
        # Before `run` got as far as to notice it, or behind it.
        pass
    except ImportError as error:
        if os.environ.get("GPUTOP_DEBUG"):
            raise
        from gputop.installation import packages

        code = packages.give_up(error)
    sys.exit(code)


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Let no Ctrl+C get lost where nothing can be raised: at the end of the lock of an import."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(unraisable)


def _print_version() -> bool:
    """Print the version; False if that fails, which `run` then reports.

    Asked often and by scripts: no import beyond the package itself.
    """
    try:
        sys.stdout.write(f"gputop {gputop.__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        return False
    return True


def run(arguments: list[str]) -> int:
    """Run one command line; gives one of the exit codes of `exits.py`, never a traceback.

    ImportError where something is missing that gputop needs.
    """
    _import_msgspec()
    from gputop.installation.namesake import other_gputop
    from gputop.terminal.output import guarded, print_no_answer
    from gputop.terminal.size import forget_odd_sizes

    forget_odd_sizes()
    with guarded():
        _tell(other_gputop())
        code, text = _answer(arguments)
        _tell(text)
        if text and ("--json" in arguments or "--format json" in " ".join(arguments)):
            print_no_answer(code, text)
    return code


def _import_msgspec() -> None:
    """Import it without `typing_extensions`, which takes longer than all the rest of it.

    Of what that has msgspec needs what Python's own `typing` has too, since 3.11.
    """
    # msgspec imports it too, overlooks a Ctrl+C that ends that, and crashes with its first record.
    import datetime  # noqa: F401

    spared = sys.version_info >= (3, 11) and "typing_extensions" not in sys.modules
    if spared:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # not to be had
    try:
        import msgspec  # noqa: F401
    finally:
        if spared:
            del sys.modules["typing_extensions"]


def _tell(problem: str) -> None:
    """Say one line on stderr, unless it is ""."""
    from contextlib import suppress

    from gputop.exits import Exit
    from gputop.terminal.output import print_problem

    if problem:
        # Nobody may be left to read it; Python's own end would say 1, which here means slow.
        with suppress(OSError, Exit):
            print_problem(problem)


def _answer(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what went wrong in one line, or ""."""
    from gputop.exits import ANSWERED, CANNOT_TELL, INTERRUPTED, OWN_ERROR, Exit
    from gputop.memory import fit, lacking
    from gputop.terminal.output import flush
    from gputop.topology.model.errors import GputopError

    try:
        fit()
        code = _dispatch(arguments)
        flush()
    except Exit as end:
        return end.exit_code, str(end)
    except KeyboardInterrupt:
        return INTERRUPTED, ""
    except BrokenPipeError:
        # The reader of our output left (`gputop topo | head`); nothing more can be said to it.
        return ANSWERED, ""
    except Exception as error:
        # The border of the program: one line, not a traceback.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED, ""  # it met a class in the making
        if isinstance(error, GputopError):
            return error.exit_code, str(error)
        if os.environ.get("GPUTOP_DEBUG"):
            raise
        if lacking(error):
            return CANNOT_TELL, f"memory does not suffice: {str(error) or type(error).__name__}"
        if isinstance(error, ImportError):
            # `main` says it: what prints here may be what is missing.
            raise
        text = f"{type(error).__name__}: {error} (our fault; GPUTOP_DEBUG=1 shows where)"
        return OWN_ERROR, text
    return code, ""


def _dispatch(arguments: list[str]) -> int:
    asked = os.environ.get("_GPUTOP_COMPLETE")
    if not arguments and not asked:
        # The plain case is the one that has to be quick: it needs no command line library.
        from gputop.session import open_app

        return open_app()
    from gputop.waking import wake_for

    if not asked:
        wake_for(arguments)
    import gc

    import click

    # What a command makes it keeps: the collector would look at all of it for nothing.
    gc.set_threshold(1_000_000, 10, 10)
    from gputop.commands.root import root
    from gputop.exits import ANSWERED, INTERRUPTED, USAGE, Exit

    if asked:
        from gputop.commands.completion import answer

        return answer(root, asked)
    if arguments[0] in ("help", "man"):
        arguments = [*arguments[1:], "--help"]
    try:
        code = root.main(arguments, prog_name="gputop", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except SystemExit:
        # click exits with 1 when the reader of our output has gone.
        return ANSWERED
    except click.ClickException as error:
        from gputop.commands.refusals import refusal

        raise Exit(refusal(error), USAGE) from error
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
