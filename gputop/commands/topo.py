"""`gputop topo`: the graph of the node in the forms that other programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gputop.commands.options import (
    json_option,
    print_json,
    read_snapshot,
    say,
    source_options,
    tell_problems,
)

if TYPE_CHECKING:
    from gputop.topology.report import Report

LETTERS = "GPUs and NICs, in letters of PCIe distance (not RCCL's path types):"
FORMATS = ("matrix", "tree", "dot", "graphml", "nccl-xml", "json")


@click.command("topo")
@source_options
@json_option
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=None,
    help="matrix (the default) is laid out like `nvidia-smi topo -m`, with AMD's GPUs alone like "
    "`rocm-smi --showtopo`; nccl-xml is the file that "
    "NCCL_TOPO_FILE takes: the one that was read, or what NCCL would detect on this node.",
)
def command(
    sources: tuple[str, ...],
    demo: str | None,
    as_json: bool,
    form: str | None,
) -> None:
    """Print how the devices of the node hang together."""
    from gputop.topology.report import examine

    snapshot = read_snapshot(sources, demo)
    tell_problems(snapshot)
    if form == "nccl-xml":
        from gputop.topology.exports.nccl_xml import as_nccl_xml

        written = as_nccl_xml(snapshot)
        for sentence in written.assumptions:
            say(sentence)
        click.echo(written.text, nl=False)
        return
    report = examine(snapshot)
    form = form or ("json" if as_json else "matrix")
    if form == "matrix":
        click.echo(_tables(report), nl=False)
        return
    from gputop.topology.exports import graph_files as exports

    if form == "json":
        print_json(exports.as_json(report))
    else:
        writers = {"tree": exports.as_tree, "dot": exports.as_dot, "graphml": exports.as_graphml}
        click.echo(writers[form](report))


def _tables(report: Report) -> str:
    """Write what the maker's own tool prints; AMD's has no NICs, which follow in letters."""
    from gputop.topology.exports.showtopo import format_showtopo, has_tables
    from gputop.topology.wiring.relations import format_matrix

    machine = report.snapshot.machine
    letters = format_matrix(report.matrix)
    if not has_tables(machine):
        return letters
    tables = format_showtopo(machine)
    return f"{tables}\n{LETTERS}\n\n{letters}" if report.matrix.nics else tables
