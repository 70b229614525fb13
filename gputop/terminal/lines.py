"""Lines for people and documents for programs, as plain commands print them."""

from __future__ import annotations

import shutil
import sys

import click
import msgspec

from gputop.terminal.clean import clean


def say(text: str) -> None:
    """One line for people, on stderr, without control characters."""
    click.echo(clean(text, 600), err=True)


def print_json(document: object) -> None:
    """One document on stdout, indented."""
    data = document if isinstance(document, bytes) else msgspec.json.encode(document)
    click.echo(msgspec.json.format(data, indent=2).decode())


def text_width(widest: int | None = None) -> int:
    """Columns for text on stdout: the terminal's, at most `widest`; 80 where it is none."""
    columns = terminal_width()
    if columns is None:
        return 80
    return columns if widest is None else min(columns, widest)


def terminal_width() -> int | None:
    """Columns of the terminal on stdout; None where it is none."""
    # stdout is None when the caller closed it.
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size((80, 24)).columns
