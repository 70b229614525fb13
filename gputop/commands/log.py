"""`gputop log`: explains a debug log of NCCL or RCCL on the graph of the node, and dumps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputop.answers.jobs import document as jobs_document
from gputop.answers.jobs import text as jobs_text
from gputop.commands.options import completing, json_option, source_options
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.live.log_reading import ReadError, document, read_path, read_stream
from gputop.pages.log.sections import plain_text
from gputop.reading import check_sources, read_snapshot
from gputop.terminal.lines import print_json, warn
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.symptoms.log import examine, fits
from gputop.topology.jobs.asking import JobsAnswer, of_files
from gputop.topology.jobs.flight.files import FoundDumps, named
from gputop.topology.jobs.flight.files import read as read_dumps
from gputop.topology.jobs.saved import in_sections, states_from_saved
from gputop.topology.logs.report.places import gpus_from
from gputop.topology.nccl.versions import UnknownVersionError, version_for
from gputop.topology.recorded.formats.ncclras import TOOL

if TYPE_CHECKING:
    from gputop.topology.logs.report.report import LogReport
    from gputop.topology.model.snapshot import NodeSnapshot


@click.command("log")
@click.argument("file", metavar="FILE|-", shell_complete=completing("files"))
@source_options
@click.option(
    "--nccl",
    "library",
    metavar="VERSION",
    shell_complete=completing("versions"),
    default=None,
    help="Version whose rules predict: 2.28.9, nccl-2.28.9 or rccl-2.21.5; default is the log's.",
)
@json_option
def command(
    file: str, sources: tuple[str, ...], demo: str | None, library: str | None, as_json: bool
) -> None:
    """Explain a debug log (NCCL_DEBUG=INFO) and compare it with the prediction.

    FILE may be compressed with gzip; - reads stdin. The node is --from or --demo, else this
    machine where its GPUs are those of the log, else it is rebuilt from the log itself.

    FILE may also be a dump of PyTorch's flight recorder, or a folder with the dumps of all ranks,
    or what `ncclras` printed: they are explained as by `gputop jobs`.
    """
    check_sources(sources, demo)
    if library is not None:
        try:
            version_for(library)
        except UnknownVersionError as error:
            raise Exit(str(error), USAGE) from error
    dumps, others = named([] if file == "-" else [file])
    if dumps:
        _tell_dumps(dumps, as_json=as_json)
        return
    if others and os.path.isdir(file):
        raise Exit(f"{file}: not a plain file, nor a folder with dumps of a flight recorder", USAGE)
    log = _read(file)
    saved = in_sections(log.name or "text", log.pasted.sections if log.pasted is not None else ())
    broken = [f"{where}: {why}" for where, why in saved.refused]
    alone = _nothing_else(log)
    if alone and broken and not saved.answers:
        raise Exit(broken[0], CANNOT_TELL)
    for why in broken:
        warn(why)
    if saved.answers and alone and not (sources or demo):
        _tell(of_files(None, FoundDumps(), states_from_saved(saved)), as_json=as_json)
        return
    read = examine(log, _node(log, sources, demo), library=library)
    if as_json:
        print_json(document(read))
        return
    click.echo(plain_text(read, text_width() - 2))


def _tell_dumps(paths: Sequence[str], *, as_json: bool) -> None:
    """Explain dumps of the flight recorder; what cannot be read as one is named on stderr."""
    found = read_dumps(paths, follow=True)
    refused = [f"{path}: {why}" for path, why in found.refused]
    if not found.dumps:
        more = f"; {len(refused) - 1} more files like it" if len(refused) > 1 else ""
        raise Exit(f"{refused[0] if refused else paths[0]}{more}", CANNOT_TELL)
    for text in refused:
        warn(text)
    _tell(of_files(None, found), as_json=as_json)


def _nothing_else(log: LogReport) -> bool:
    """Whether a text holds answers of RAS and nothing of a log or of another tool."""
    tools = {section.tool for section in log.pasted.sections} if log.pasted is not None else set()
    return tools == {TOOL} and not (log.notes or log.communicators or log.diagnostics)


def _tell(answer: JobsAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(jobs_document(None, answer))
        return
    click.echo(jobs_text(None, answer, text_width()))


def _read(file: str) -> LogReport:
    try:
        if file == "-":
            return read_stream(sys.stdin.buffer, "stdin")
        return read_path(Path(file))
    except ReadError as error:
        raise Exit(str(error), USAGE if error.unreadable else CANNOT_TELL) from error


def _node(log: LogReport, sources: tuple[str, ...], demo: str | None) -> NodeSnapshot | None:
    """The node of the options, or this machine if the log names its GPUs."""
    if sources or demo:
        return read_snapshot(sources, demo)
    if not gpus_from(log):
        return None
    here = read_snapshot((), None)
    if not fits(log, here):
        return None
    warn("the node is this machine: its GPUs are those of the log")
    return here
