"""`gputop snapshot`: the NodeSnapshot as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from gputop.commands.examples import WithExamples
from gputop.commands.options import json_option, say_problems, source_options
from gputop.exits import Exit
from gputop.reading import read_snapshot
from gputop.terminal.lines import print_json, warn
from gputop.terminal.writing import STDOUT, code_of, write_whole
from gputop.topology.model.characters import json_text
from gputop.topology.model.redact import redacted


@click.command("snapshot", cls=WithExamples)
@source_options
@json_option
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
@click.option(
    "--redact",
    is_flag=True,
    help="Replace host names, serials, UUIDs, MACs, GUIDs, IPs, users and paths, consistently.",
)
@click.option("--with-args", is_flag=True, help="Keep command-line arguments of GPU processes.")
def command(
    sources: tuple[str, ...],
    demo: str | None,
    as_json: bool,
    output: str | None,
    redact: bool,
    with_args: bool,
) -> None:
    """Print everything that is known about the node as JSON (schema gputop.snapshot/1)."""
    snapshot = read_snapshot(sources, demo, with_args=with_args)
    if redact:
        snapshot = redacted(snapshot)
    say_problems(snapshot)
    if output in (None, STDOUT):
        print_json(snapshot)
        return
    try:
        write_whole(Path(output), json_text(snapshot) + "\n")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{output}: not written: {why}", code_of(error)) from error
    warn(f"wrote {output}")
