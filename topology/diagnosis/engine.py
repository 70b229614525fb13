"""Asks all rules about one case: findings, silenced findings, rules without evidence."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

import msgspec

from ..hardware.strangers import NOT_KNOWN, strangers
from ..hardware.vendor import Vendor
from ..model.finding import Finding
from ..model.machine import Gpu
from ..model.page import Fact
from ..model.record import Record
from ..model.severity import CANNOT_TELL, Verdict
from .case import Case
from .evidence import Lack, lacking, unproven
from .inventory import read_of
from .rule import NotRead, Rule
from .rules import NAMES

FAILED = "rule-failed"
"""Id of the finding that a rule of ours raised."""
NOTHING = "nothing-to-examine"
"""Id of the finding that there is no GPU, or nothing known of those that are there."""
STRANGER = "vendor-unknown"
"""Id of the finding that the vendor of some GPUs is not one of those that are known."""


class Silenced(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that the user or the site has silenced."""

    finding: Finding
    reason: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of all rules."""

    findings: tuple[Finding, ...] = ()
    """The most harmful first; among equals in the order of the registry."""
    silenced: tuple[Silenced, ...] = ()
    examined: tuple[str, ...] = ()
    """Ids of the rules that had their evidence."""
    unexamined: tuple[str, ...] = ()
    """Ids of the rules that lacked their evidence."""
    unread: Mapping[str, str] = {}
    """What was missing of each of them: "gpu.persistence: not asked"."""
    elsewhere: tuple[str, ...] = ()
    """Ids of the rules about a vendor without GPUs here: they are not asked and lack nothing."""
    lacking: tuple[Lack, ...] = ()
    """What is not known of some GPUs and has to be, before they are called healthy."""
    verdict: Verdict = Verdict.HEALTHY

    @property
    def checks(self) -> int:
        """How many rules had their evidence.

        Those that compare counters over time are left out: the app can ask them after a while, a
        single look cannot, and both are to say the same number.
        """
        return sum(1 for rule in self.examined if rule not in over_time())

    @property
    def skipped(self) -> int:
        """How many rules lacked their evidence, counted in the same way."""
        return sum(1 for rule in self.unexamined if rule not in over_time())


@cache
def load() -> tuple[Rule, ...]:
    """Every rule, in the order of the registry."""
    modules = (import_module(f"{__package__}.rules.{name}") for name in NAMES)
    return tuple(rule for module in modules for rule in module.RULES)


@cache
def over_time() -> frozenset[str]:
    """Ids of the rules that compare counters with an earlier reading."""
    return frozenset(rule.id for rule in load() if rule.over_time)


def diagnose(case: Case, rules: Sequence[Rule] | None = None) -> Diagnosis:
    """Ask every rule; one that raises becomes a finding of its own."""
    asked = load() if rules is None else rules
    if not case.gpus:
        return _without_gpus(case, asked)
    found: list[tuple[Rule, Finding]] = []
    examined: list[str] = []
    unread: dict[str, str] = {}
    elsewhere: list[str] = []
    failed: list[Finding] = []
    for rule in asked:
        if not rule.concerns(case.gpus):
            elsewhere.append(rule.id)
            continue
        try:
            said = rule.findings(case)
        except NotRead as gap:
            unread[rule.id] = str(gap)
            continue
        except Exception as error:  # noqa: BLE001 - the rules' border: a bug is reported, not hidden
            failed.append(_failed(case, rule, error))
            continue
        examined.append(rule.id)
        found += [(rule, _disproved(case, rule, finding)) for finding in said]
    kept = tuple(finding for rule, finding in found if not _implied(rule, finding, found))
    failed += [_stranger(case, vendor, gpus) for vendor, gpus in strangers(case.gpus)]
    lacks = lacking(case)
    missing: list[Finding] = []
    if (unread and not examined) or _blind(case):
        # Every rule about the GPUs lacked its evidence: that is no proof of health.
        failed.append(_nothing(case))
    else:
        missing = unproven(case, lacks, (*failed, *kept))
    diagnosis = _verdict((*failed, *kept, *missing), tuple(examined), tuple(unread), case)
    return msgspec.structs.replace(
        diagnosis, elsewhere=tuple(elsewhere), lacking=lacks, unread=unread
    )


def _without_gpus(case: Case, rules: Sequence[Rule]) -> Diagnosis:
    """Where no GPU is known: a driver that lost them all, or does not answer, may be why."""
    found: list[tuple[Rule, Finding]] = []
    failed: list[Finding] = []
    for rule in rules:
        if rule.without_gpus:
            try:
                said = rule.answer(case) or ()
            except Exception as error:  # noqa: BLE001 - as above
                failed.append(_failed(case, rule, error))
                continue
            found += [(rule, _disproved(case, rule, finding)) for finding in said]
    kept = failed + [finding for rule, finding in found if not _implied(rule, finding, found)]
    unexamined = tuple(rule.id for rule in rules)
    # A notice is no reason to call a node without GPUs healthy.
    harmful = any(finding.severity.counts for finding in kept)
    return _verdict(kept if harmful else (*kept, _nothing(case)), (), unexamined, case)


def _disproved(case: Case, rule: Rule, finding: Finding) -> Finding:
    """The finding with the rule's disproof, by the tool that knows the GPUs it is about."""
    if finding.disproof:
        return finding
    gpus = [gpu for gpu in case.gpus if gpu.address in finding.devices] or case.gpus
    return msgspec.structs.replace(finding, disproof=rule.disproof_for(gpus, case.words))


def _implied(rule: Rule, finding: Finding, found: Sequence[tuple[Rule, Finding]]) -> bool:
    """Whether a finding that explains this one speaks of one of its devices, or of the node.

    A less harmful finding explains nothing: else a notice would remove a slow job from the verdict.
    """
    why = [
        other
        for _, other in found
        if other.id in rule.implied_by and other.severity.order <= finding.severity.order
    ]
    if not finding.devices or any(not other.devices for other in why):
        return bool(why)
    explained = {device for other in why for device in other.devices}
    if rule.each:
        return explained.issuperset(finding.devices)
    return not explained.isdisjoint(finding.devices)


def _verdict(
    findings: Sequence[Finding],
    examined: tuple[str, ...],
    unexamined: tuple[str, ...],
    case: Case,
) -> Diagnosis:
    ignored = case.policy.ignored
    loud = sorted(
        (finding for finding in findings if finding.id not in ignored),
        key=lambda finding: finding.severity.order,
    )
    return Diagnosis(
        findings=tuple(loud),
        silenced=tuple(
            Silenced(finding=finding, reason=ignored[finding.id])
            for finding in findings
            if finding.id in ignored
        ),
        examined=examined,
        unexamined=unexamined,
        verdict=Verdict.of(finding.severity for finding in loud),
    )


def _failed(case: Case, rule: Rule, error: Exception) -> Finding:
    what = f"{type(error).__name__}: {error}"[:300]
    return Finding.of(
        id=FAILED,
        severity=CANNOT_TELL,
        title=f"rule {rule.id} failed",
        evidence=(Fact(what=f"error in the rule {rule.id}", value=what, source="gputop"),),
        disproof="a version of gputop in which the rule runs",
        impact=f"Not examined: {case.words.fill(rule.title)}.",
        sources=rule.sources,
    )


def _stranger(case: Case, vendor: Vendor, gpus: Sequence[Gpu]) -> Finding:
    devices = tuple(gpu.address for gpu in gpus)
    return Finding.of(
        id=STRANGER,
        severity=CANNOT_TELL,
        title=f"the vendor of {case.names(devices)} is not known to gputop: {vendor.name}",
        devices=devices,
        evidence=(
            Fact(
                what=f"vendor of {case.names(devices)}",
                value=vendor.name,
                source=case.source,
            ),
        ),
        disproof="a version of gputop that knows this vendor",
        impact=f"Not known of this vendor: {NOT_KNOWN}. So nothing is called healthy here.",
    )


_PLACE = frozenset(("address", "vendor", "index", "index_shared", "place", "minor", "gaps"))
"""Fields that say where a GPU is, but nothing about its state."""


def _blind(case: Case) -> bool:
    """Whether nothing is known of any GPU except where it is: no fact, no reading, no neighbour."""
    machine, gpus = case.machine, {gpu.address for gpu in case.gpus}
    if machine.pairs or machine.relations or machine.pci or machine.nccl_topology is not None:
        return False
    readings = [reading for reading in case.snapshot.readings.gpus if reading.address in gpus]
    return not any(map(_said, (*case.gpus, *readings)))


def _said(record: Record) -> bool:
    bare = {field.name: field.default for field in msgspec.structs.fields(record)}
    return any(
        value != bare[name]
        for name, value in msgspec.structs.asdict(record).items()
        if name not in _PLACE
    )


def _nothing(case: Case) -> Finding:
    problems = [
        Fact(what=f"source {problem.source}", value=problem.text, source=problem.source)
        for problem in case.snapshot.problems
    ]
    count = len(case.gpus)
    shown = () if case.on_node or count else read_of(case)
    beside = f"; this text shows {', '.join(shown)}" if shown else ""
    gpus = Fact(what="GPUs", value=str(count), source=case.source)
    return Finding.of(
        id=NOTHING,
        severity=CANNOT_TELL,
        title="nothing is known of the GPUs" if count else f"no GPU to examine{beside}",
        evidence=(gpus, *problems),
        disproof="an answer of the driver"
        if count
        else "a GPU on the PCI bus, or one that the driver names",
        impact="Nothing was examined, so nothing is called healthy.",
    )
