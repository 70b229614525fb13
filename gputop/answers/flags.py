"""The variables that NCCL and its surroundings read: which are set, and what they do here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from gputop.answers.predicting import PredictingRequest, changes_of, selected
from gputop.answers.question import Clash, Option, Question, Reply
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, Exit
from gputop.printing.render import blocks_of
from gputop.terminal.clean import clean
from gputop.terminal.nearest import meant
from gputop.terminal.size import text_width
from gputop.topology.explain.prediction import library_line
from gputop.topology.explain.value_rows import in_one_line, reached, value_rows
from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.account.overview import SetVariable, overview
from gputop.topology.flags.account.ucx import concerns, gpu_to_gpu
from gputop.topology.flags.catalogue.catalogue import (
    Flag,
    catalogue,
    elsewhere,
    program_of,
    unknown,
)
from gputop.topology.flags.values.process import ProcessError, ProcessFlags, read
from gputop.topology.flags.values.values import Reading, for_library, unread
from gputop.topology.flags.what_if.changes import Changes
from gputop.topology.flags.what_if.effects import Change, Effect, ranks_of
from gputop.topology.flags.what_if.outcomes import CHANGES, IN_SHORT, VALUES
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.wording import NVLS_UNSURE
from gputop.topology.flags.what_if.wording import sections as change_sections
from gputop.topology.model.english import plural
from gputop.topology.model.gathered import gathered, gathered_by
from gputop.topology.model.page import Blank, Page, Role, Section, Text
from gputop.topology.model.units import sentence
from gputop.topology.model.versions import Library, numbers
from gputop.topology.nccl.versions import UnknownVersionError
from gputop.topology.node import Node

_LONGEST_CELL = 40
WIDEST = 120
"""Wider prose is hard to read."""


class FlagsRequest(PredictingRequest, frozen=True, kw_only=True):
    """Show which variables are set, where, and what they do here; with NAME, explain one.

    NAME=VALUE, or --set NAME=VALUE, shows what would change; NAME= sets it to nothing, as a shell
    does.
    """

    clashes = (
        Clash(
            ("--all", "--search"),
            ("NAME", "--pid"),
            "--all and --search take neither NAME nor --pid",
        ),
    )
    name: Annotated[str | None, Option("NAME", "", completes="variables")] = None
    pid: Annotated[
        int | None, Option("--pid", "Read the variables of this process.", "PID", least=1)
    ] = None
    every: Annotated[bool, Option("--all", "List all known variables.")] = False
    search: Annotated[
        str | None,
        Option(
            "--search",
            "List the variables that match all these words.",
            metavar="TEXT",
        ),
    ] = None


class ValueOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one value of a flag would do on this node."""

    value: str
    reading: Reading | None
    effect: Effect


class FlagDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One flag and its effect on this node."""

    entry: Flag
    default: str
    value: str | None
    unread: str
    """Why this library does not read the flag; "" when it does."""
    outcomes: tuple[ValueOutcome, ...]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The node with --set compared with the node as it is."""

    changes: tuple[Change, ...]
    effect: Effect
    export: str


class FlagsDocument(Reply, frozen=True, kw_only=True, tag="gputop.flags/1"):
    """What `gputop flags --json` prints."""

    library: Library | None = None
    followed: str = ""
    """Which library the predictions follow, and why."""
    set: tuple[SetVariable, ...] = ()
    flag: FlagDocument | None = None
    process: ProcessFlags | None = None
    what_if: WhatIf | None = None
    catalogue: tuple[Flag, ...] | None = None
    assumptions: tuple[str, ...] = ()


class FlagsAnswer(Reply, frozen=True, kw_only=True):
    """What was asked about: the node as a study, which predicts what page or document needs."""

    study: Study | None = None
    """None for the catalogue alone."""
    origins: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Variable -> who sets it."""
    flag: Flag | None = None
    process: ProcessFlags | None = None
    changes: Changes = msgspec.field(default_factory=dict)
    found: tuple[Flag, ...] = ()
    """Entries of the catalogue."""
    counted: tuple[str, ...] = ()
    cannot_predict: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """How many entries of the catalogue were found."""
        return self.counted

    @property
    def trouble(self) -> str:
        """Why nothing is predicted."""
        why = self.cannot_predict
        return f"the effect of variables here is unknown: {why}" if why else ""

    @property
    def exit_code(self) -> int:
        """Whether something could be predicted."""
        return CANNOT_TELL if self.cannot_predict else ANSWERED

    def document(self) -> dict[str, Any]:
        """What JSON holds."""
        study = self.study
        if study is None:
            found = tuple(for_library(flag, None) for flag in self.found)
            return FlagsDocument(source=(), catalogue=found).document()
        trouble = self.cannot_predict
        what_if = None
        if self.changes:
            one = study.compare({}, self.changes)
            what_if = WhatIf(changes=one.changes, effect=one.effect, export=one.export)
        return FlagsDocument(
            source=study.snapshot.source,
            library=study.whose(),
            followed=study.followed,
            set=overview(study, self.origins),
            flag=None if self.flag is None else _outcomes(self.flag, study, trouble),
            process=self.process,
            what_if=what_if,
            assumptions=(
                *((trouble,) if trouble else study.baseline().assumptions),
                *(() if self.process is None else self.process.notes),
            ),
        ).document()


def answer(request: FlagsRequest) -> FlagsAnswer:
    """Read the node, and the process that is asked about."""
    if request.every or request.search is not None:
        found = catalogue().search(request.search or "")
        count = f"{len(found)} of {len(catalogue().flags)} variables"
        return FlagsAnswer(found=found, counted=() if request.as_json else (count,))
    name, equals, _ = (request.name or "").partition("=")
    if request.name and equals:
        # NAME=VALUE asks what --set asks.
        settings = (*request.settings, request.name)
        request = msgspec.structs.replace(request, settings=settings)
    flag = None if request.name is None else _flag(name)
    process = None if request.pid is None else _process(request.pid, request)
    changes = changes_of(request.settings)
    # A machine without a GPU has variables as well.
    snapshot = request.snapshot(absences=False)
    held = snapshot.environment if process is None else process.environment
    study = Study(
        snapshot,
        library=request.library,
        own=None if process is None else process.loaded,
        gpus=selected(request.gpus, snapshot.machine),
        values={variable.name: variable.value for variable in held},
    )
    try:
        trouble = study.trouble()
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error
    return FlagsAnswer(
        study=study,
        origins={variable.name: variable.origin for variable in held},
        flag=flag,
        process=process,
        changes={} if trouble else changes,
        cannot_predict=trouble or "",
    )


def _flag(name: str) -> Flag:
    flag = catalogue().flag(name)
    if flag is not None:
        return flag
    if elsewhere(name):
        raise Exit(f"{clean(name, 60)} is not in the catalogue: it is {elsewhere(name)}", USAGE)
    if program_of(name):
        raise Exit(f"{clean(name, 60)} is {unknown(name).why}", USAGE)
    near = catalogue().closest(name) or catalogue().without_prefix(name)
    hint = meant(near) or "; gputop flags --search TEXT looks for words"
    raise Exit(f"no variable {clean(name, 60)!r}{hint}", USAGE)


def _process(pid: int, request: FlagsRequest) -> ProcessFlags:
    if request.sources or request.demo:
        raise Exit("--pid reads this machine: leave out --from and --demo", USAGE)
    try:
        return read(pid)
    except ProcessError as error:
        raise Exit(str(error), USAGE if error.missing else CANNOT_TELL) from error


def _outcomes(flag: Flag, study: Study, trouble: str) -> FlagDocument:
    library = study.whose()
    closed = unread(flag, library)
    tried = () if closed or trouble else study.tries(flag)
    return FlagDocument(
        entry=for_library(flag, None),
        default=flag.default_of(library.name, numbers(library.version)),
        value=study.values.get(flag.name),
        unread=closed,
        outcomes=tuple(
            ValueOutcome(
                value=trial.changes[0].after or "",
                reading=trial.changes[0].reading,
                effect=trial.effect,
            )
            for trial in tried
        ),
    )


def page(answer: FlagsAnswer) -> Page:
    """The catalogue, one variable for this node, or all that are set; then what would change."""
    study, flag = answer.study, answer.flag
    if study is None:
        return Page(title="flags", blocks=blocks_of(_catalogue(answer.found)))
    changed = change_sections(study.compare({}, answer.changes)) if answer.changes else ()
    if flag is None:
        return Page(title="flags", blocks=blocks_of((*_overview(study, answer), *changed)))
    explained = plain(flag) if answer.cannot_predict else _explained(flag, study)
    held = [f"{name}={study.values[name]}" for name in flag.names if name in study.values]
    here = f"{' and '.join(held)} here" if held else "not set here"
    head = [Text(f"{flag.name} ({flag.whose}, {flag.subject}): {here}")]
    if explained[0].title == IN_SHORT:
        said = explained[0].paragraphs
        head += (Text(text, role=Role.STRONG) for text in said[:1])
        head += map(Text, said[1:])
        explained = explained[1:]
    return Page(title=flag.name, blocks=(*head, Blank(), *blocks_of((*changed, *explained))))


def _catalogue(found: tuple[Flag, ...]) -> Iterator[Section]:
    groups = gathered((flag.whose, (flag.name, for_library(flag, None).changes)) for flag in found)
    for group, rows in groups.items():
        yield Section(title=group, table=tuple(rows))


def _explained(flag: Flag, study: Study) -> tuple[Section, ...]:
    """The page of a variable, with what an all-reduce reaches beside what each value would do."""
    sections = [_narrowed(part) for part in account(flag, study)]
    place = next((n for n, part in enumerate(sections, 1) if part.title.startswith(VALUES)), 0)
    if not place:
        return tuple(sections)
    rows = value_rows(flag, study, Node(study.snapshot))
    if (costs := reached(rows, study)).table:
        sections.insert(place, costs)
    if sections[0].title != IN_SHORT:
        unsure = (NVLS_UNSURE,) * any(" to " in row.large for row in rows)
        said = tuple(in_one_line(rows).split(" · "))
        sections.insert(0, Section(title=IN_SHORT, paragraphs=(*said, *unsure)))
    return tuple(sections)


def _narrowed(section: Section) -> Section:
    """A table whose long cells would be columns of single words has them below it."""
    head, *rows = section.table or ((),)
    if CHANGES not in head or max(len(row[1]) for row in rows) <= _LONGEST_CELL:
        return section
    table = tuple((row[0], *row[2:]) for row in section.table)
    bullets = tuple(f"{row[0]}: {row[1]}" for row in rows[1:])
    return msgspec.structs.replace(section, table=table, bullets=bullets)


def _nothing_set(study: Study, answer: FlagsAnswer) -> Section:
    """That defaults apply."""
    library = study.whose()
    ranks = 0 if answer.cannot_predict else len(ranks_of(study.baseline()))
    node = f"{plural(ranks, 'GPU')}, rules of {library.name.upper()} {library.version}"
    whose = "this process" if answer.process is not None else "this node's environment and files"
    text = f"No variable of {library.name.upper()} and its surroundings is set in {whose}"
    return Section(title=f"What is set ({node})", paragraphs=(f"{text}; defaults apply.",))


def _entries(entries: Sequence[SetVariable]) -> Iterator[Section]:
    """Variables of the library one by one, those that others read in a list for each."""
    for entry in entries:
        if not entry.read_by:
            title = f"{entry.name}={entry.value}  ({entry.origin}): {entry.status.word}"
            yield Section(title=title, paragraphs=(entry.said,))
    for who, own in gathered_by(entries, lambda entry: entry.read_by).items():
        if who:
            lines = tuple(f"{one.name}={one.value}  ({one.origin}): {one.said}" for one in own)
            yield Section(title=f"Read by {who}", bullets=lines)


def _overview(study: Study, answer: FlagsAnswer) -> Iterator[Section]:
    """All variables that are set, with their effects on this node."""
    process, library = answer.process, study.whose()
    name = library.name.upper()
    if process is not None:
        yield _process_section(process, name, study.followed)
    entries = overview(study, answer.origins)
    if not entries:
        yield _nothing_set(study, answer)
    yield from _entries(entries)
    flags = (catalogue().flag(entry.name) for entry in entries)
    if any(flag is not None and concerns(flag) for flag in flags):
        yield gpu_to_gpu(study.snapshot, study.values)
    notes = study.snapshot.assumptions if process is None else ()
    if process is None and (named := library_line(study.snapshot, study.library)):
        notes = (named, *notes)
    if notes:
        yield Section(title="Notes", bullets=tuple(map(sentence, notes)))
    failure = None if answer.cannot_predict else study.baseline().failure
    if failure:
        yield Section(title="As set", paragraphs=(f"{failure}.",))


def _process_section(process: ProcessFlags, name: str, followed: str) -> Section:
    who = " of ".join(part for part in (process.command, process.user) if part)
    seen = f"{name} library: {process.library or 'not seen'}."
    return Section(
        title=f"Process {process.pid}" + (f": {who}" if who else ""),
        paragraphs=(sentence(followed) if process.loaded else seen,),
        bullets=tuple(map(sentence, process.notes)),
    )


QUESTION = Question(
    name="flags",
    request=FlagsRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(WIDEST),
    listed=False,
)
