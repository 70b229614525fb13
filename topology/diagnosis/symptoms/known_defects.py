"""Known defects of the versions that a text names: by their messages, else by what else it says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from ...logs.report.outcome import outcome_of
from ...logs.report.report import LogNote, LogReport
from ...model.finding import Candidate, Finding
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, RunState, Sureness
from ...model.versions import Product
from ...recorded.said_versions import LIBRARIES, said_of
from ..defects.scene import Scene, fitting, of_machine
from ..defects.table import Defect, Trait, defects
from ..defects.words import ID, MOST_TOLD, ends, proof, steps, title
from .survived import of_ras, survived

MOST_QUOTED = 3
HEAD = "A known defect of "
USED = {"/IB": Trait.INFINIBAND, "/RoCE": Trait.ROCE, "NET/Socket": Trait.SOCKETS}
"""Words of the lines in which the library names its networks."""


def with_defects(findings: Iterable[Finding], log: LogReport) -> list[Finding]:
    """The findings, with known defects among the possible causes of the lines that they print.

    A defect of which no line stands in the text is a notice, where all its conditions are met.
    """
    scene, found, told = of_log(log), list(findings), set[str]()
    for defect in defects():
        notes = _notes(defect, log) if defect.says and scene.has(defect) else []
        if not notes or scene.rules_out(defect):
            continue
        told.add(defect.id)
        candidate = _candidate(defect, notes, scene)
        at = _quoting(found, {note.line for note in notes})
        if at is None:
            found.append(_own(candidate, defect, notes, log))
        else:
            found[at] = _joined(found[at], candidate, defect)
    return [*found, *_by_version(log, scene, told)]


def _notes(defect: Defect, log: LogReport) -> list[LogNote]:
    """The lines that a defect prints, but for those behind which the run went on."""
    notes = (note for note in log.notes if defect.matches(note.words))
    return [note for note in notes if not (of_ras(note) or survived(log, note))]


def _quoting(found: list[Finding], lines: set[int]) -> int | None:
    """The place of a finding about one of the lines that is not sure of its cause."""
    for at, one in enumerate(found):
        unsure = one.sureness is not Sureness.CERTAIN and one.severity.counts
        if unsure and lines & {fact.line for fact in one.evidence}:
            return at
    return None


def _joined(finding: Finding, candidate: Candidate, defect: Defect) -> Finding:
    """A finding with one more possible cause, the first of all where the defect is well known."""
    own = finding.candidates or (
        Candidate(
            cause=finding.cause,
            needs=finding.look[0] if finding.look else "",
            fix=finding.fix[:1],
        ),
    )
    first = defect.sureness is not Sureness.POSSIBLE
    every = (candidate, *own) if first else (*own, candidate)
    return msgspec.structs.replace(
        finding,
        candidates=every,
        fix=every[0].fix,
        sureness=Sureness.POSSIBLE,
        sources=tuple(dict.fromkeys((*finding.sources, *defect.sources))),
    )


def of_log(log: LogReport) -> Scene:
    """What a text says of the versions, the node and the job."""
    settings = {variable.name: variable.value for variable in log.environment}
    pasted = log.pasted
    node = Scene() if pasted is None else of_machine(pasted.snapshot.machine, settings)
    beside = log.versions.beside or ()
    said = {product: named for product in Product if (named := said_of(beside, product))}
    library, version = log.versions.library, log.versions.version
    if library is not None and version is not None:
        said[LIBRARIES[library]] = (version,)
    if (cuda := log.versions.driver) is not None:
        said[Product.CUDA_DRIVER] = (f"{cuda // 1000}.{cuda % 1000 // 10}",)
    return msgspec.structs.replace(
        node,
        versions={**node.versions, **said},
        traits={**node.traits, **dict(_traits(log))},
        settings=settings,
    )


def _traits(log: LogReport) -> Iterator[tuple[Trait, bool]]:
    main = log.main
    if main is not None and len(main.hosts) > 1:
        yield Trait.SEVERAL_HOSTS, True
    using = [note.text for note in log.notes if " : Using [" in note.text]
    for words, trait in USED.items():
        if any(words in text for text in using):
            yield trait, True


def is_defect(candidate: Candidate) -> bool:
    """Whether a possible cause is a known defect after which a job does not go on."""
    return any(
        defect.harm.severity is BROKEN
        and candidate.cause.startswith(HEAD)
        and defect.what in candidate.cause
        for defect in defects()
    )


def _candidate(defect: Defect, notes: list[LogNote], scene: Scene) -> Candidate:
    named = f"{defect.product} {' and '.join(scene.versions[defect.product])}"
    only = f" It shows with {defect.only}." if defect.only else ""
    return Candidate(
        cause=f"{HEAD}{named}: {defect.what} ({ends(defect)}).{only}",
        supported_by=tuple(note.words[:200] for note in notes[:MOST_QUOTED]),
        needs=f"the same run with {defect.cure}" if defect.fixed else "the same run with the fix",
        fix=_fixes([defect])[:1],
    )


def _own(candidate: Candidate, defect: Defect, notes: list[LogNote], log: LogReport) -> Finding:
    """A finding of lines of which nothing else makes a possible cause."""
    failed = outcome_of(log).state is RunState.FAILED
    return Finding.of(
        id=ID,
        severity=CANNOT_TELL if failed else NOTICE,
        title=f"A known defect may be behind a line: {defect.what}",
        evidence=tuple(_quoted(note, log.name) for note in notes[:MOST_QUOTED]),
        count=sum(note.count for note in notes),
        look=(candidate.needs,),
        fix=_fixes([defect]),
        candidates=(candidate,),
        sources=defect.sources,
        sureness=Sureness.POSSIBLE,
    )


def _by_version(log: LogReport, scene: Scene, told: Collection[str]) -> Iterator[Finding]:
    """One notice for each product; a version that the text names makes no cause of anything."""
    for product, fit in fitting(scene).items():
        found = [defect for defect in fit if defect.id not in told]
        if not found:
            continue
        versions = " and ".join(scene.versions[product])
        facts = [*_said(product, log)] + [
            Fact(what=what, value=value, source=source)
            for what, value, source in map(proof, found[:MOST_TOLD])
        ]
        yield Finding.of(
            id=ID,
            severity=NOTICE,
            title=f"{product} {versions} {title(found)}",
            evidence=tuple(facts),
            cause="The version has them, and what else they need is in the text. "
            "Whether one of them showed is not: it may not be what went wrong here.",
            count=len(found),
            look=(f"the version of {product} that the job loads",),
            fix=_fixes(found),
            sources=tuple(dict.fromkeys(one for defect in found for one in defect.sources)),
            sureness=Sureness.POSSIBLE,
        )


def _said(product: Product, log: LogReport) -> Iterator[Fact]:
    """The line that names the version of a product."""
    own, beside = log.versions, log.versions.beside or ()
    if own.library is not None and LIBRARIES[own.library] is product and own.line:
        built = f"+{own.built_for}" if own.built_for else ""
        text = f"{own.library.upper()} version {own.version}{built}"
        yield Fact(what=f"line {own.line}", value=text, source=log.name, line=own.line)
    for one in beside:
        if one.product is product:
            yield Fact(what=f"line {one.line}", value=one.text, source=log.name, line=one.line)


def _fixes(found: list[Defect]) -> tuple[Fix, ...]:
    return tuple(Fix(text=text) for text in steps(found))


def _quoted(note: LogNote, source: str) -> Fact:
    return Fact(what=f"line {note.line}", value=note.words, source=source, line=note.line)
