"""Three pages of docs/ that are made of records: `python -m tests.support.record_pages`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gputop.answers.rules import entries, harm_of
from gputop.topology.diagnosis.symptoms.explain import table
from gputop.topology.flags.catalogue.catalogue import Flag, catalogue
from gputop.topology.hardware.terms import terms_for
from gputop.topology.model.severity import Severity

from .places import ROOT

RULES = """# What is checked

`gputop check` asks these rules; the most harmful subjects come first. `gputop rules` lists them,
and `gputop rule pcie-width` says all of one, with what it found on a sick machine.

"At worst" is the most harmful thing that a rule says on the machines of its tests. The page is made
of the rules by `python -m tests.support.record_pages`.
"""
VARIABLES = """# The variables

`gputop flags NCCL_P2P_LEVEL` explains one for a node: what each value would change there, and by
how much. The page is made of [the catalogue](../topology/flags/catalogue) by `python -m
tests.support.record_pages`. A source is a file of the program that reads it, or a manual.
"""
SYMPTOMS = """# Symptoms in logs

`gputop log nccl.log` and `--from` know these lines of NCCL, RCCL, launchers and programs. Where a
line proves one cause it is given; else the possible ones stand here, and the rest of the text
decides on their order. The page is made of [the rows](../topology/diagnosis/symptoms) by `python -m
tests.support.record_pages`.
"""


def rules() -> str:
    """The page of rules."""
    lines = [RULES, *_head("rule", "at worst", "looks for", "proof", "disproof", "sources")]
    for rule in entries():
        sources = "; ".join(rule.sources)
        said = rule.title, rule.evidence, rule.disproof, sources
        lines.append(_row(f"`{rule.id}`", harm_of(rule), *said))
    return "\n".join(lines) + "\n"


def variables() -> str:
    """The page of variables, by whose they are."""
    words, groups = terms_for(None), defaultdict[str, list[Flag]](list)
    for flag in catalogue().flags:
        groups[flag.whose].append(flag.said(words))
    lines = [VARIABLES]
    for whose, flags in groups.items():
        lines += [f"## {whose}: {len(flags)}", ""]
        lines += _head("variable", "values", "default", "what it changes", "trap", "source")
        for flag in flags:
            names = ", ".join(f"`{name}`" for name in flag.names)
            said = flag.values, flag.default, flag.changes, flag.trap or ""
            lines.append(_row(names, *said, flag.source))
        lines.append("")
    return "\n".join(lines)


def symptoms() -> str:
    """The page of symptoms, the worst first."""
    lines = [SYMPTOMS]
    for severity in Severity:
        rows = [row for row in table() if row.severity is severity]
        if not rows:
            continue
        lines += [f"## {severity.word}: {len(rows)}", ""]
        lines += _head("symptom", "what it is", "cause", "what helps", "sources")
        for row in rows:
            causes = [row.cause.strip(), *(one.cause for one in row.candidate)]
            numbered = " ".join(filter(None, causes))
            helps = "; ".join(row.fix)
            lines.append(_row(f"`{row.id}`", row.title, numbered, helps, "; ".join(row.sources)))
        lines.append("")
    return "\n".join(lines)


PAGES = {"rules.md": rules, "variables.md": variables, "symptoms.md": symptoms}
"""Name of each in docs/ -> what makes it."""


def _head(*titles: str) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"| {' | '.join(['---'] * len(titles))} |"


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Text that a cell of Markdown shows as it is."""
    shown = " ".join(text.split()).replace("|", "\\|")
    return shown if "`" in shown else shown.replace("<", "&lt;").replace("*", "\\*")


def stale(pages: Iterable[str] = PAGES) -> list[str]:
    """The pages that are not as their records are."""
    folder = ROOT / "docs"
    return [name for name in pages if (folder / name).read_text("utf-8") != PAGES[name]()]


if __name__ == "__main__":
    for made, page in PAGES.items():
        (ROOT / "docs" / made).write_text(page(), encoding="utf-8")
