"""Rule: one thing that can be wrong, what proves it, and what would disprove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..hardware.vendors import NVIDIA, only
from ..model.finding import Finding
from ..model.page import SIMULATED, Fact, Fix
from ..model.severity import Severity

if TYPE_CHECKING:
    from ..hardware.words import Words
    from ..model.machine import Gpu
    from .case import Case


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `check` says None where its evidence is missing, else what it found."""

    id: str
    """Kebab-case and stable, because users silence the rule by this name."""
    title: str
    """What is looked for, a noun phrase: "NVLinks that are down". This, `evidence` and `disproof`
    may hold the fields of Words in braces."""
    evidence: str
    """What has to be read for it, in words."""
    disproof: str
    """What would show that a finding is wrong."""
    sources: tuple[str, ...]
    """Where the rule comes from: documents, threads, files of source code."""
    check: Callable[[Case], Iterable[Finding] | None]
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
    without_gpus: bool = False
    """Whether it also speaks where no GPU is known: of a driver that gives none away."""
    thresholds: tuple[tuple[str, float], ...] = ()
    """Limits that a site may set, with the default: ("minimum_bytes", 1e9)."""

    def concerns(self, gpus: Sequence[Gpu]) -> bool:
        """Whether the rule is about any of these GPUs."""
        return not self.vendor or any(gpu.vendor == self.vendor for gpu in gpus)

    def disproof_for(self, gpus: Sequence[Gpu], words: Words) -> str:
        """What would show that a finding about these GPUs is wrong, by the tool that knows them."""
        vendor, commands, by = only(gpus), dict(self.asked), dict(self.disproof_by)
        asked = " or ".join(commands.values())
        if vendor is None:
            return words.say(self.disproof, asked=asked)
        if by and vendor is not NVIDIA and vendor.id not in by:
            return f"another answer of {vendor.tool}"
        text = by.get(vendor.id, self.disproof)
        return words.say(text, asked=commands.get(vendor.id, vendor.tool))

    def finding(
        self,
        severity: Severity,
        title: str,
        *,
        devices: Sequence[str] = (),
        evidence: Sequence[Fact],
        impact: str,
        fix: Sequence[Fix] = (),
        disproof: str = "",
        cost: str = "",
        brief: str = "",
    ) -> Finding:
        """Make a finding of this rule; without a disproof of its own it gets the rule's."""
        if evidence and all(proof.source.startswith(SIMULATED) for proof in evidence):
            # Where something was read as well, the evidence tells the two apart.
            title = title if SIMULATED in title else f"{title.rstrip('.')} ({SIMULATED})"
            impact = f"{SIMULATED.capitalize()}: {impact}"
        return Finding.of(
            id=self.id,
            family=self.family,
            severity=severity,
            title=title,
            brief=brief,
            devices=tuple(devices),
            evidence=tuple(evidence),
            disproof=disproof,
            impact=impact,
            cost=cost,
            fix=tuple(fix),
            sources=self.sources,
        )
