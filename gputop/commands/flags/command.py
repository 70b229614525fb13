"""`gputop flags`: the variables that NCCL and its surroundings read, and their effect here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gputop.answers.predicting import changes_of, selected
from gputop.commands.flags.document import catalogue_document, document
from gputop.commands.flags.text import overview_lines
from gputop.commands.options import completing, json_option, say_problems, source_options
from gputop.commands.predicting import predicting_options
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.printing.render import blocks_of, texts
from gputop.reading import read_snapshot
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.nearest import meant
from gputop.terminal.size import text_width
from gputop.topology.explain.value_rows import reached
from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.catalogue.catalogue import catalogue, elsewhere
from gputop.topology.flags.values.process import ProcessError, ProcessFlags, read
from gputop.topology.flags.values.values import for_library
from gputop.topology.flags.what_if.outcomes import VALUES
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.wording import sections as change_sections
from gputop.topology.model.page import Section
from gputop.topology.nccl.versions import UnknownVersionError
from gputop.topology.node import Node

if TYPE_CHECKING:
    from gputop.topology.flags.catalogue.catalogue import Flag
    from gputop.topology.model.snapshot import NodeSnapshot

LONGEST_LINE = 400
WIDEST = 120
"""Wider prose is hard to read."""


@click.command("flags")
@click.argument("name", required=False, shell_complete=completing("variables"))
@source_options
@predicting_options
@click.option(
    "--pid", type=click.IntRange(1), default=None, help="Read the variables of this process."
)
@click.option("--all", "every", is_flag=True, help="List all known variables.")
@click.option(
    "--search", metavar="TEXT", default=None, help="List the variables that match all these words."
)
@json_option
def command(
    name: str | None,
    sources: tuple[str, ...],
    demo: str | None,
    settings: tuple[str, ...],
    library: str | None,
    gpus: str | None,
    pid: int | None,
    every: bool,
    search: str | None,
    as_json: bool,
) -> None:
    """Show which variables are set, where, and what they do here; with NAME, explain one.

    --set NAME=VALUE shows what would change; NAME= sets it to nothing, as a shell does.
    """
    if every or search is not None:
        if name is not None or pid is not None:
            raise Exit("--all and --search take neither NAME nor --pid", USAGE)
        _catalogue(search or "", as_json)
        return
    flag = _flag(name)
    process = _process(pid, sources, demo)
    changes = changes_of(settings)
    snapshot = read_snapshot(sources, demo)
    say_problems(snapshot)
    study, origins = _study(snapshot, process, library, selected(gpus, snapshot.machine))
    trouble = study.trouble()
    if as_json:
        print_json(document(study, snapshot, origins, flag, process, changes))
    elif flag is not None:
        _explain(flag, study, changes, predicted=trouble is None)
    else:
        _overview(study, origins, process, changes if trouble is None else {})
    if trouble:
        raise Exit(f"the effect of variables here is unknown: {trouble}", CANNOT_TELL)


def _flag(name: str | None) -> Flag | None:
    if name is None:
        return None
    flag = catalogue().flag(name)
    if flag is not None:
        return flag
    if elsewhere(name):
        raise Exit(f"{clean(name, 60)} is not in the catalogue: it is {elsewhere(name)}", USAGE)
    near = catalogue().closest(name) or catalogue().closest(f"NCCL_{name}")
    hint = meant(near) or "; gputop flags --search TEXT looks for words"
    raise Exit(f"no variable {clean(name, 60)!r}{hint}", USAGE)


def _process(pid: int | None, sources: tuple[str, ...], demo: str | None) -> ProcessFlags | None:
    if pid is None:
        return None
    if sources or demo:
        raise Exit("--pid reads this machine: leave out --from and --demo", USAGE)

    try:
        return read(pid)
    except ProcessError as error:
        raise Exit(str(error), USAGE if error.missing else CANNOT_TELL) from error


def _study(
    snapshot: NodeSnapshot,
    process: ProcessFlags | None,
    library: str | None,
    gpus: tuple[str, ...] | None,
) -> tuple[Study, dict[str, str]]:
    """The node with the variables of the process, or else of the snapshot."""
    held = snapshot.environment if process is None else process.environment
    if library is None and process is not None:
        library = process.rules
    study = Study(
        snapshot,
        library=library,
        gpus=gpus,
        values={variable.name: variable.value for variable in held},
    )
    try:
        study.trouble()
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error
    return study, {variable.name: variable.origin for variable in held}


def _catalogue(search: str, as_json: bool) -> None:
    found = catalogue().search(search)
    if as_json:
        print_json(catalogue_document(found))
        return
    groups: dict[str, list[Flag]] = {}
    for flag in found:
        groups.setdefault(flag.group, []).append(flag)
    sections = tuple(
        Section(
            title=group,
            table=tuple((flag.name, for_library(flag, None).changes) for flag in flags),
        )
        for group, flags in groups.items()
    )
    _echo(texts(blocks_of(sections), text_width(WIDEST)))
    warn(f"{len(found)} of {len(catalogue().flags)} variables")


def _explain(flag: Flag, study: Study, changes: dict[str, str | None], *, predicted: bool) -> None:
    lines = [f"{flag.name} ({flag.group}, {flag.subject})", ""]
    if changes and predicted:
        lines += [
            *texts(blocks_of(change_sections(study.compare({}, changes))), text_width(WIDEST)),
            "",
        ]
    page = account(flag, study) if predicted else plain(flag)
    if predicted:
        # Beside what each value would do, where the page says that.
        place = next((n for n, part in enumerate(page, 1) if part.title.startswith(VALUES)), 0)
        if place and (costs := reached(flag, study, Node(study.snapshot))).table:
            page = (*page[:place], costs, *page[place:])
    _echo([*lines, *texts(blocks_of(page), text_width(WIDEST))])


def _overview(
    study: Study,
    origins: dict[str, str],
    process: ProcessFlags | None,
    changes: dict[str, str | None],
) -> None:
    lines = overview_lines(study, origins, process, text_width(WIDEST))
    if changes:
        lines += [
            "",
            *texts(blocks_of(change_sections(study.compare({}, changes))), text_width(WIDEST)),
        ]
    _echo(lines)


def _echo(lines: list[str]) -> None:
    for line in lines:
        click.echo(clean(line, LONGEST_LINE))
