"""Lines for people and documents for programs, as plain commands print them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import click

from gputop.terminal.clean import clean
from gputop.terminal.output import print_document
from gputop.topology.model.characters import json_pieces

_UNSAID: ContextVar[bool] = ContextVar("unsaid", default=False)


@contextmanager
def unsaid() -> Iterator[None]:
    """Let nothing be said on stderr meanwhile, in this thread: for a program of somebody else."""
    before = _UNSAID.set(True)
    try:
        yield
    finally:
        _UNSAID.reset(before)


def warn(text: str, most: int = 600) -> None:
    """One line for people, on stderr, without control characters."""
    if not _UNSAID.get():
        click.echo(clean(text, most), err=True)


def print_json(document: object) -> None:
    """One document on stdout, indented."""
    for piece in json_pieces(document):
        print_document(piece)
    print_document("\n")
