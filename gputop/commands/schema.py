"""`gputop schema`: the JSON Schema of a document.

`python -m gputop.commands.schema` keeps docs/schemas, which holds a file for each version of each
document. A file of a version that is out is written anew only where the new schema takes nothing
from whoever relies on the old one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from gputop.commands.examples import WithExamples
from gputop.exits import FAILURES, Exit
from gputop.printing.render import render
from gputop.schemas import breaks, documents, named, schema_of, tag_of
from gputop.terminal.output import print_document, print_lines
from gputop.terminal.size import text_width
from gputop.terminal.writing import write_whole
from gputop.topology.model.characters import json_text
from gputop.topology.model.page import Column, Table

FOLDER = Path("docs/schemas")


def _names(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    return [name for name in map(named, documents()) if name.startswith(typed)]


@click.command("schema", cls=WithExamples)
@click.argument("name", required=False, shell_complete=_names)
def command(name: str | None) -> None:
    """Print the JSON Schema of a document; without NAME, list the documents.

    A document says in its field `schema` which it is: "gputop.check/1" is version 1 of check.
    """
    if name is not None:
        print_document(written(tag_of(name)))
        return
    heads = (Column("document"), Column("schema"), Column("what it holds"))
    rows = tuple(
        (named(tag), tag, (kinds[0].__doc__ or "").partition("\n")[0])
        for tag, kinds in documents().items()
    )
    print_lines(render((Table(heads, rows, indent=0),), text_width()))


def written(tag: str) -> str:
    """A schema as its file holds it."""
    return json_text(schema_of(tag)) + "\n"


def file_of(tag: str) -> str:
    """The name of the file of a schema: "check-1.json"."""
    return f"{tag.removeprefix('gputop.').replace('/', '-')}.json"


def stale(folder: Path) -> Iterator[str]:
    """The schemas whose file is missing or says something else."""
    for tag in documents():
        file = folder / file_of(tag)
        if not file.exists() or file.read_text("utf-8") != written(tag):
            yield tag


def write_all(folder: Path) -> None:
    """Write the files that are stale. Raises Exit where a version would change its meaning."""
    folder.mkdir(parents=True, exist_ok=True)
    for tag in tuple(stale(folder)):
        file = folder / file_of(tag)
        if file.exists():
            lost = breaks(msgspec.json.decode(file.read_bytes()), schema_of(tag))
            if lost:
                raise Exit(f"{tag} needs a new version: {'; '.join(lost)}", FAILURES)
        write_whole(file, written(tag))


if __name__ == "__main__":
    try:
        write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    except Exit as error:
        sys.exit(str(error))
