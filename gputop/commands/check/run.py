"""Carries out one `gputop check`: here, or in a child where there is a deadline."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import gputop
from gputop.checking.answer import CheckAnswer
from gputop.checking.check import Wanted, check
from gputop.checking.origin import origin
from gputop.checking.rules import RULES
from gputop.commands.check.text import lines
from gputop.commands.options import say_problems
from gputop.exits import CANNOT_TELL, OWN_ERROR, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import print_document
from gputop.terminal.size import terminal_width

if TYPE_CHECKING:
    from gputop.checking.deadline import Relay, Supervised

_RESERVE_SHARE, _LEAST_RESERVE, _MOST_RESERVE = 0.2, 1.0, 10.0
"""The part of a deadline that is kept for what follows measuring: reading again, judging, writing;
two seconds on a node of eight GPUs."""
_WRITE_SECONDS = 0.5
"""The part of it that is kept for writing the answer in any case."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, beyond what is examined."""

    wanted: Wanted
    as_json: bool = False
    verbose: bool = False
    junit: str | None = None
    output: str | None = None
    """The pattern of the file."""
    redact: bool = False
    deadline_seconds: float | None = None


def carry_out(order: Order, started: float) -> int:
    """Do it, and give the exit code. Raises Exit."""
    if order.output is not None:
        from gputop.commands.check.file import target

        target(order.output, origin())  # a wrong pattern is said before anything is measured
    if order.deadline_seconds is None:
        return _work(order, started, None)
    from gputop.checking.deadline import supervised

    seconds = order.deadline_seconds
    # The time of the imports counts, but not what a process did before it came to this command.
    begun = time.monotonic() - (_age_seconds() if gputop.own_process else 0.0)
    reserve = min(_MOST_RESERVE, max(_LEAST_RESERVE, seconds * _RESERVE_SHARE))
    wanted = msgspec.structs.replace(order.wanted, until=begun + seconds - reserve)
    limited = msgspec.structs.replace(order, wanted=wanted)
    ended = supervised(lambda line: _work(limited, started, line), begun + seconds - _WRITE_SECONDS)
    if ended.code is not None and not (ended.problem and ended.code in (CANNOT_TELL, OWN_ERROR)):
        if ended.problem:
            raise Exit(ended.problem, ended.code)
        if ended.document:
            from gputop.commands.check.file import write

            path, _, text = ended.document.partition("\n")
            write(Path(path), text)
        with suppress(BrokenPipeError):
            printed = ended.output.decode(errors="replace")
            if order.as_json:
                print_document(printed)
            else:
                click.echo(printed, nl=False)
        return ended.code
    return _without_answer(order, ended, started)


def _without_answer(order: Order, ended: Supervised, started: float) -> int:
    """Say, and write, that the check gave no answer."""
    from gputop.checking.late import late_answer

    answer = late_answer(origin(), ended, order.deadline_seconds or 0.0, started)
    _put_out(order, answer, None)
    return answer.exit_code if ended.code is None else ended.code


def _work(order: Order, started: float, line: Relay | None) -> int:
    code = CANNOT_TELL
    # The reader of our text may go (`| head -1`); the exit code still counts.
    with suppress(BrokenPipeError):
        answer = check(order.wanted, started, None if line is None else line.stage)
        code = answer.exit_code
        if order.junit is not None:
            from gputop.commands.check.junit import write

            write(answer, RULES, order.junit)
        _put_out(order, answer, line)
    return code


def _put_out(order: Order, answer: CheckAnswer, line: Relay | None) -> None:
    """Print the answer, or write its file and print one line."""
    say_problems(answer.node)
    for note in answer.assumptions:
        warn(f"note: {note}")
    if order.output is None and not order.as_json:
        _print_text(order, answer)
        return
    from gputop.commands.check.document import document

    made = document(answer)
    host = answer.fleet.host if answer.fleet is not None else ""
    if order.redact:
        from gputop.checking.redacting import redacted_document

        made, host = redacted_document(made, answer)
    if order.output is None:
        print_json(made)
        return
    from gputop.commands.check.file import packed, target, write

    of = msgspec.structs.replace(origin(), host=host or origin().host)
    live = not (order.wanted.sources or order.wanted.demo)
    boot_id = answer.fleet.boot_id if live and answer.fleet is not None else None
    path = target(order.output, of, boot_id)
    text = packed(made, path)
    if line is not None:
        line.hand_over(f"{path}\n{text}")
    else:
        write(path, text)
    if not order.as_json:
        simulated = answer.node.simulated
        verdict = next(lines(answer.diagnosis, None, measured=answer.probes, simulated=simulated))
        click.echo(clean(f"{of.host}: {verdict}", 4000))


def _print_text(order: Order, answer: CheckAnswer) -> None:
    for text in lines(
        answer.diagnosis,
        terminal_width(),
        verbose=order.verbose,
        measured=answer.probes,
        simulated=answer.node.simulated,
    ):
        click.echo(clean(text, 4000))
    if answer.exit_code and not order.verbose:
        warn("--verbose shows evidence, impact and what to do")


def _age_seconds() -> float:
    """How long this process runs already; 0 where the system does not say (proc(5), starttime)."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (AttributeError, OSError, ValueError, IndexError):
        return 0.0
