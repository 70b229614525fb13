"""Rule: one thing that can be wrong, what proves it, and what would disprove it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar, Union

import msgspec

from ..hardware.vendors import NVIDIA, only
from ..model.errors import GputopError
from ..model.finding import Finding
from ..model.page import SIMULATED, Fact, Fix
from ..model.record import NOT_ASKED
from ..model.severity import Severity

if TYPE_CHECKING:
    from ..hardware.terms import VendorTerms
    from ..model.machine import Gpu
    from .case import Case

Proof = tuple[str, str, str]
"""One piece of evidence: what, value and source."""
Step = Union[Fix, str, tuple[Any, ...]]  # noqa: UP007 - evaluated at import
"""One action: "text", "text $ command", or "text # command" for a command that needs root. With
words from outside it is a tuple, ("text $ command {:pid}", 4711): see model/copied.py."""
Found = Union[Finding, Iterable[Finding], None]  # noqa: UP007 - as above
"""The answer of a rule: its findings, or None where its evidence is missing."""
_COMMAND = re.compile(r"(.*?) ([$#]) ?(.*)", re.DOTALL)


Some = TypeVar("Some", bound=Sized)


class RuleEnds(GputopError):  # noqa: N818 - it is an answer, no error
    """Ends a rule before its last line."""


class NotRead(RuleEnds):
    """Evidence that a rule needs and that nobody read."""

    def __init__(self, field: str = "", gap: str = NOT_ASKED) -> None:
        super().__init__(f"{field}: {gap}")
        self.field, self.gap = field, gap


class NothingFound(RuleEnds):
    """The evidence is there, and nothing is wrong."""


def needed(known: Some) -> Some:
    """Give back what was read; where it is empty, the rule ends without its evidence."""
    if not len(known):
        raise NotRead
    return known


def faulty(found: Some) -> Some:
    """Give back what is wrong; where it is empty, the rule ends without a finding."""
    if not len(found):
        raise NothingFound
    return found


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `check` gives its findings; None, or NotRead, where its evidence is missing."""

    id: str
    """Kebab-case and stable, because users silence the rule by this name."""
    title: str
    """What is looked for, a noun phrase: "NVLinks that are down". This, `evidence` and `disproof`
    may hold the fields of VendorTerms in braces."""
    evidence: str
    """What has to be read for it, in words."""
    disproof: str
    """What would show that a finding is wrong."""
    sources: tuple[str, ...]
    """Where the rule comes from: documents, threads, files of source code."""
    check: Callable[[Case], Found]
    vendor: str = ""
    """Id of the only vendor whose GPUs it is about; without such GPUs the rule is not asked. Empty
    for a rule about any vendor."""
    disproof_by: tuple[tuple[str, str], ...] = ()
    """Ids of vendors, and another disproof with the tool of each, for a rule about any GPU."""
    asked: tuple[tuple[str, str], ...] = ()
    """Ids of vendors, and what stands for {asked} in the disproof: a command of each one's tool."""
    family: str = ""
    """Number of the kind of trouble, "D07": related rules share one. It is part of the JSON."""
    implied_by: tuple[str, ...] = ()
    """Ids of rules that explain this one: a finding about a device that such a rule names too is
    left out, so that one cause gives one finding."""
    each: bool = False
    """Whether each device of its findings has a cause of its own: then a finding is left out only
    if all its devices are explained."""
    over_time: bool = False
    """Whether it compares counters with an earlier reading, which a single look does not have."""
    extra: bool = False
    """Whether a verdict needs no such evidence: where nobody read it, nothing is missing."""
    without_gpus: bool = False
    """Whether it also speaks where no GPU is known: of a driver that gives none away."""
    thresholds: tuple[tuple[str, float], ...] = ()
    """Limits that a site may set, with the default: ("minimum_bytes", 1e9)."""
    severities: tuple[Severity, ...] = ()
    """What a rule of a plugin may say; those of gputop's own are known by their examples."""

    def concerns(self, gpus: Sequence[Gpu]) -> bool:
        """Whether the rule is about any of these GPUs."""
        return not self.vendor or any(gpu.vendor == self.vendor for gpu in gpus)

    def disproof_for(self, gpus: Sequence[Gpu], words: VendorTerms) -> str:
        """What would show that a finding about these GPUs is wrong, by the tool that knows them."""
        vendor, commands, by = only(gpus), dict(self.asked), dict(self.disproof_by)
        asked = " or ".join(commands.values())
        if vendor is None:
            return words.fill(self.disproof, asked=asked)
        if by and vendor is not NVIDIA and vendor.id not in by:
            return f"another answer of {vendor.tool}"
        text = by.get(vendor.id, self.disproof)
        return words.fill(text, asked=commands.get(vendor.id, vendor.tool))

    def finding(
        self,
        severity: Severity,
        title: str,
        *,
        devices: Iterable[str | Gpu] = (),
        evidence: Iterable[Proof],
        impact: str,
        fix: Iterable[Step] = (),
        disproof: str = "",
        cost: str = "",
        brief: str = "",
    ) -> Finding:
        """Make a finding of this rule; without a disproof of its own it gets the rule's."""
        facts = tuple(
            Fact(what=what, value=value, source=source) for what, value, source in evidence
        )
        if facts and all(proof.source.startswith(SIMULATED) for proof in facts):
            # Where something was read as well, the evidence tells the two apart.
            title = title if SIMULATED in title else f"{title.rstrip('.')} ({SIMULATED})"
            impact = f"{SIMULATED.capitalize()}: {impact}"
        return Finding.of(
            id=self.id,
            family=self.family,
            severity=severity,
            title=title,
            brief=brief,
            devices=tuple(map(address_of, devices)),
            evidence=facts,
            disproof=disproof,
            impact=impact,
            cost=cost,
            fix=tuple(map(step, fix)),
            sources=self.sources,
        )

    def findings(self, case: Case) -> tuple[Finding, ...]:
        """Ask the rule; raises NotRead where its evidence is missing."""
        try:
            found = self.check(case)
            if found is not None:
                return (found,) if isinstance(found, Finding) else tuple(found)
        except NothingFound:
            return ()
        except NotRead as gap:
            raise NotRead(gap.field or self.evidence, gap.gap) from None
        raise NotRead(self.evidence)

    def answer(self, case: Case) -> tuple[Finding, ...] | None:
        """Its findings; None where its evidence is missing."""
        try:
            return self.findings(case)
        except NotRead:
            return None


def address_of(device: str | Gpu) -> str:
    """The address of a device."""
    return device if isinstance(device, str) else device.address


def step(written: Step) -> Fix:
    """An action as a record."""
    if isinstance(written, Fix):
        return written
    line, *words = (written,) if isinstance(written, str) else written
    parts = _COMMAND.fullmatch(line)
    if parts is None:
        return Fix(text=line)
    text, mark, command = parts.groups()
    if words:
        return Fix.of(text, command, *words, root=mark == "#")
    return Fix(text=text, command=command, needs_root=mark == "#")
