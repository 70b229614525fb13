"""What a finding says below its title, as blocks: all of it, or the first steps and why."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.topology.model.finding import UNSEEN, Finding
from gputop.topology.model.page import IMPACT, Block, Facts, Role, Steps, Text
from gputop.topology.model.severity import CANNOT_TELL, Origin

LOOK_AT = "Look at"


def finding_blocks(finding: Finding) -> tuple[Block, ...]:
    """What a finding says below its title: what to do, its proof, what follows, what disproves it.

    What to do stands first, so that a small terminal shows it without scrolling.
    """
    blocks: list[Block] = []
    if finding.fix and not finding.candidates:
        blocks += [Steps(finding.fix)]
    if finding.evidence:
        blocks += [Facts(finding.evidence)]
    blocks += candidate_blocks(finding)
    for label, text in (
        ("Cause", finding.said_cause),
        (IMPACT, finding.impact),
        (LOOK_AT, "; ".join(finding.look)),
        ("Ruled out if", finding.disproof),
    ):
        if text:
            blocks.append(Text(text, label=label, hanging=4))
    if finding.sources and finding.origin is not Origin.FLEET:  # a fleet has no other than gputop
        blocks.append(Text(", ".join(finding.sources), label="Sources", role=Role.MUTED, hanging=4))
    return tuple(blocks)


MOST_STEPS, MOST_CAUSES = 3, 2
"""Steps and possible causes of the worst finding that are shown unasked."""


def says_something(finding: Finding) -> bool:
    """Whether it is about what was seen; of what was not, one step will do."""
    return finding.id not in UNSEEN


def first_blocks(finding: Finding, *, most: int = 1) -> Iterator[Block]:
    """The first step and why, in the words of `finding_blocks`.

    `most`: so many steps, or so many possible causes where none is proven.
    """
    if finding.candidates:
        for label, text in finding.possible(min(most, MOST_CAUSES)):
            yield Text(text, label=label, hanging=4 if label else 0)
        return
    if finding.fix:
        yield Steps(finding.fix[:most])
    elif finding.look:
        yield Text(finding.look[0], label=LOOK_AT, hanging=4)
    yield from _why(finding)


def _why(finding: Finding) -> Iterator[Text]:
    """The cause; what follows, where a title says the cause itself."""
    if finding.cause:
        yield Text(finding.said_cause, label="Cause", hanging=4)
    elif finding.impact and finding.severity is not CANNOT_TELL:
        yield Text(finding.impact, label=IMPACT, hanging=4)


def candidate_blocks(finding: Finding) -> Iterator[Block]:
    """The possible causes of a finding, each with what speaks for it and what would decide."""
    for number, one in enumerate(finding.candidates, 1):
        lead = "Possible causes" if len(finding.candidates) > 1 else "A possible cause"
        yield Text(one.cause, label=f"{lead}: {number}" if number == 1 else f"{number}", hanging=4)
        for label, text in one.told:
            yield Text(text, label=label, indent=3, hanging=4)
