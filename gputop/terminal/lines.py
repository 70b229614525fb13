"""Lines for people and documents for programs, as plain commands print them."""

from __future__ import annotations

import click

from gputop.terminal.clean import clean
from gputop.terminal.output import print_document
from gputop.topology.model.characters import json_pieces


def warn(text: str) -> None:
    """One line for people, on stderr, without control characters."""
    click.echo(clean(text, 600), err=True)


def print_json(document: object) -> None:
    """One document on stdout, indented."""
    for piece in json_pieces(document):
        print_document(piece)
    print_document("\n")
