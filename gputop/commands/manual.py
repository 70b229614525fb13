"""The manual page gputop(1), made of what `--help` says: `python -m gputop.commands.manual`.

docs/gputop.1 holds it, and an installation puts it where man(1) looks.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from gputop import __version__
from gputop.answers import QUESTIONS
from gputop.commands import NAMES, SUMMARIES
from gputop.commands.examples import EXAMPLES
from gputop.commands.root import root
from gputop.terminal.output import print_document

ABOUT = "a terminal explorer for the inside of a GPU node"
CODES = {
    0: "answered; of check: all well",
    1: "something is slow",
    2: "something is broken",
    3: "could not tell",
    64: "wrong usage, or a path that cannot be read",
    70: "an error of gputop",
    130: "interrupted",
}
"""What `gputop/exits.py` means."""


def manual() -> str:
    """The page in the language of man(7)."""
    lines = [
        f'.TH GPUTOP 1 "" "gputop {__version__}" "User Commands"',
        *(".SH NAME", f"gputop \\- {_plain(ABOUT)}"),
        *(".SH SYNOPSIS", ".B gputop", r"[\fIOPTIONS\fR] [\fICOMMAND\fR [\fIARGUMENTS\fR]]"),
        ".SH DESCRIPTION",
        *_paragraphs(root),
        ".SH OPTIONS",
        *_options(root),
        ".SH EXAMPLES",
        *_examples("gputop"),
        ".SH COMMANDS",
    ]
    summaries = QUESTIONS | dict(zip(NAMES, SUMMARIES.values(), strict=True))
    for name, summary in summaries.items():
        command = root.get_command(click.Context(root), name)
        assert command is not None
        lines += _command(name, command, summary)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for lower in ("DIR", *command.list_commands(context)):
                found = command.get_command(context, lower)
                if found is not None:
                    lines += _command(f"{name} {lower}", found)
    lines += [".SH EXIT STATUS"]
    for code, meaning in CODES.items():
        lines += [".TP", f".B {code}", _plain(meaning)]
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command, summary: str = "") -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
    yield f".SS gputop {name} {_plain(usage)}".rstrip()
    if summary:
        yield from (_plain(summary), ".PP")
    yield from _paragraphs(command)
    yield from _options(command)
    yield from _examples(command.name or "")


def _examples(name: str) -> Iterator[str]:
    for text, purpose in EXAMPLES.get(name, ()):
        yield from (".TP", f".B {_plain(text)}", f"{_plain(purpose)}")


def _paragraphs(command: click.Command) -> Iterator[str]:
    for number, text in enumerate((command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        yield _plain(" ".join(text.replace("\b", "").split()))


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and record[0]:  # the heading names some arguments already
            yield from (".TP", f".B {_plain(record[0])}", _plain(" ".join(record[1].split())))


def _plain(text: str) -> str:
    """Text that man(7) shows as it is; a hyphen stays one that can be copied."""
    shown = text.replace("\\", r"\(rs").replace("-", r"\-")
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown


if __name__ == "__main__":
    print_document(manual())
