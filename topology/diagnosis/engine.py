"""Asks all rules about one case: findings, silenced findings, rules without evidence."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

import msgspec

from ..hardware.specs import WIRED
from ..hardware.strangers import NOT_KNOWN, strangers
from ..hardware.vendor import BUS, DRIVER, ERRORS, LINKS, MEMORY, SENSE, UNNAMED, Needed, Vendor
from ..hardware.vendors import vendor_of
from ..model.finding import Finding
from ..model.machine import Fabric, Gpu
from ..model.one_reason import without_told
from ..model.page import Fact, Fix
from ..model.record import NOT_ASKED, Record
from ..model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Origin, Verdict
from ..sources.collect import ONLY_PCI
from .case import Case
from .disputed import disputed
from .evidence import nameless, senseless
from .inventory import read_of, seen
from .mechanism.weighing import weighed
from .plugged import plugged
from .rule import NotRead, Rule
from .rules import NAMES

# The least that has to be known of each GPU before a node is called healthy.
#
# A vendor's record says what that is. What a product does not have is not missing: NVLinks of a
# PCIe card, under MIG or in a vGPU, and of a GPU that is alone; error counts without ECC.
LACKING = "evidence-missing"
"""Id of the finding that too little is known of some GPUs to call them healthy."""
_EXPLAIN = (
    "driver-not-answering", "device-node-denied", "driver-mismatch", "driver-fails", "gpu-lost",
    "gpu-reset-required", "gpu-without-driver", "vendor-unknown", "gpu-integrated",
)  # fmt: skip
"""Findings that say why nothing is known of a GPU."""
_OF_SENSOR = ("driver-fails", NOTICE)
"""That one sensor gave no value explains nothing else that is missing."""
_HERE = Fix(
    text="Ask as a user that may see them, with the vendor's library installed (nvidia-ml-py, "
    "amdsmi).",
)
_THERE = Fix(
    text="Take a snapshot on the node itself, and check that.",
    command="gputop snapshot -o node.json",
)
_PRINT = "Without gputop on the node: give --from this too."
_MANY = 3
"""More GPUs than these are counted, not named."""
_HARMFUL = (BROKEN, SLOW, CANNOT_TELL)
_LACKS = re.compile(r"not supported|does not know this function|prints \[?n/?a|deprecated", re.I)
"""How drivers and tools say that a product does not have something."""
_NO_LINK = re.compile(r"invalid argument", re.I)
"""How NVML also answers for the links of a product that has none."""


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of evidence that some GPUs lack, for one reason."""

    id: str
    what: str
    why: str
    devices: tuple[str, ...]
    """PCI addresses."""
    printed_by: str = ""
    """The command whose output would have it."""


def lacking(case: Case) -> tuple[Lack, ...]:
    """What is not known and has to be, by kind and reason."""
    found: dict[tuple[Needed, str], list[str]] = {}
    for gpu in _judged(case.gpus):
        for needed in vendor_of(gpu).evidence:
            why = _missing(case, gpu, needed)
            if why is not None:
                found.setdefault((needed, why), []).append(gpu.address)
    told = {(device, why) for (_, why), devices in found.items() for device in devices}
    for address, what, why in (*senseless(case), *disputed(case)):
        if (address, why) not in told:
            needed = Needed(id=SENSE, what=what, fields=())
            found.setdefault((needed, why), []).append(address)
    if hidden := nameless(case):
        shown = Needed(id=BUS, what="what the PCI bus shows", fields=())
        found[shown, "class and vendor do not say whether it is a GPU"] = hidden
    return tuple(
        Lack(
            id=needed.id,
            what=needed.what,
            why=why,
            devices=tuple(devices),
            printed_by=needed.printed_by,
        )
        for (needed, why), devices in found.items()
    )


def _judged(gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs to know something of: beside others, one that only PCI shows has its own rules."""
    described = [gpu for gpu in gpus if gpu.why("uuid") != ONLY_PCI]
    return described or list(gpus)


def _missing(case: Case, gpu: Gpu, needed: Needed) -> str | None:
    """Why the evidence is missing; None where it is there, or the product does not have it."""
    if needed.id == LINKS and not _linked(case, gpu):
        return None
    if needed.id == UNNAMED:
        return f"gputop knows no sign of a fault in GPUs of {vendor_of(gpu).name}"
    if needed.id == BUS:
        if case.busless or case.pci(gpu.address) or case.pci(gpu.parent or ""):
            return None
        return "it is not among them" if case.machine.pci else NOT_ASKED
    reasons = []
    for path in needed.fields:
        known, why = _look(case, gpu, path)
        if known:
            return None
        reasons.append(why)
        if needed.id != DRIVER and not _unasked(why):
            break  # it was asked for and refused: nothing else does in its place
    why = reasons[0]
    return None if _LACKS.search(why) and _may_lack(case, gpu, needed) else why


def _look(case: Case, gpu: Gpu, path: str) -> tuple[bool, str]:
    """Whether a field is known, and else why not."""
    name, _, field = path.partition(".")
    record: Record | None = gpu
    if name != "gpu":
        record = case.reading(gpu)
        if name == "ecc" and record is not None:
            ecc = getattr(record, "ecc", None)
            if ecc is None:
                return False, record.why("ecc") or NOT_ASKED
            record = ecc
    if record is None:
        return False, NOT_ASKED
    value = getattr(record, field)
    known = value is not None and value != ()
    if isinstance(value, Fabric):
        known = value.joined
    elif field == "nvlinks":
        known = known and all(link.active is not None for link in gpu.nvlinks)
    return known, record.why(field) or NOT_ASKED


def _unasked(why: str) -> bool:
    return why == NOT_ASKED or why.startswith("not in ")


def _linked(case: Case, gpu: Gpu) -> bool:
    """Whether links to other GPUs belong to what is examined."""
    if gpu.mig_enabled or gpu.is_vgpu:
        return False
    if sum(other.vendor == gpu.vendor for other in case.machine.gpus) < 2:
        return False
    sku = case.sku(gpu)
    why = gpu.why("nvlinks") or ""
    if sku is None:
        linked = bool(gpu.xgmi_hive) or bool(why)
        return linked and not (_LACKS.search(why) or _NO_LINK.search(why))
    if sku.fabric in WIRED:
        return True
    bare = not sku.link_count or _LACKS.search(why) or _NO_LINK.search(why) or not why
    return not bare


def _may_lack(case: Case, gpu: Gpu, needed: Needed) -> bool:
    """Whether a product may be without it: then its word for that is no missing evidence."""
    if needed.id == ERRORS:
        return not gpu.ecc_enabled
    return needed.id == MEMORY and case.sku(gpu) is None


def unproven(case: Case, lacks: Sequence[Lack], findings: Sequence[Finding]) -> list[Finding]:
    """The finding about what is missing, where no other one says already why it is."""
    heard = [finding for finding in findings if finding.id not in case.policy.ignored]
    why = [one for one in heard if one.id in _EXPLAIN and (one.id, one.severity) != _OF_SENSOR]
    explained = {device for finding in why for device in finding.devices}
    open_lacks = [
        msgspec.structs.replace(lack, devices=rest)
        for lack in lacks
        if (rest := tuple(device for device in lack.devices if device not in explained))
    ]
    if not open_lacks:
        return []
    shown = read_of(case)
    count = f"{len(shown)} thing{'s' * (len(shown) != 1)}"
    heard_of = {finding.severity for finding in heard}
    wrong = "broken or slow" if NOTICE in heard_of else "wrong"
    well = f"nothing {wrong} in the {count} that this can show; "
    if not case.on_node:
        well = f"seen: {seen(case)}; health is not in this text; "
    harmful = not heard_of.isdisjoint(_HARMFUL)
    devices = tuple(dict.fromkeys(device for lack in open_lacks for device in lack.devices))
    what = ", ".join(dict.fromkeys(lack.what for lack in open_lacks))
    source = case.source
    return [
        Finding.of(
            id=LACKING,
            severity=CANNOT_TELL,
            title=f"{'' if harmful else well}not known of {_whose(case, devices)}: {what}",
            devices=devices,
            evidence=(
                Fact(what=f"read: {count}", value=", ".join(shown), source=source),
                *(
                    Fact(
                        what=f"{lack.what} ({_whose(case, lack.devices)})",
                        value=lack.why,
                        source=source,
                    )
                    for lack in open_lacks
                ),
            ),
            disproof="a source that has them, and shows nothing wrong",
            impact="Without them nothing is called healthy: a fault there would not be seen.",
            fix=_fetch(case, open_lacks),
        )
    ]


def _whose(case: Case, devices: Sequence[str]) -> str:
    """The GPUs by name, or their number where it is all of many."""
    if len(devices) > _MANY and len(devices) == len(case.gpus):
        return f"any of the {len(devices)} GPUs"
    return case.names(devices)


def _fetch(case: Case, lacks: Sequence[Lack]) -> tuple[Fix, ...]:
    """Where to get what is missing."""
    if case.snapshot.is_live:
        return (_HERE,)
    commands = dict.fromkeys(lack.printed_by for lack in lacks if lack.printed_by)
    return (_THERE, *(Fix(text=_PRINT, command=command) for command in commands))


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


def load() -> tuple[Rule, ...]:
    """Every rule, in the order of the registry; those of plugins come last."""
    return (*own_rules(), *plugged(_ids()))


@cache
def own_rules() -> tuple[Rule, ...]:
    """The rules that come with gputop."""
    modules = (import_module(f"{__package__}.rules.{name}") for name in NAMES)
    return tuple(rule for module in modules for rule in module.RULES)


@cache
def _ids() -> frozenset[str]:
    return frozenset(rule.id for rule in own_rules())


@cache
def over_time() -> frozenset[str]:
    """Ids of our rules that compare counters with an earlier reading."""
    return frozenset(rule.id for rule in own_rules() if rule.over_time)


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
            if not rule.extra:
                unread[rule.id] = str(gap)
            continue
        except Exception as error:  # noqa: BLE001 - the rules' border: a bug is reported, not hidden
            failed.append(_failed(case, rule, error))
            continue
        examined.append(rule.id)
        found += [(rule, _disproved(case, rule, finding)) for finding in said]
    left = (finding for rule, finding in found if not _implied(rule, finding, found))
    kept = without_told(left, case.snapshot.symptoms)
    failed += [_stranger(case, vendor, gpus) for vendor, gpus in strangers(case.gpus)]
    lacks = lacking(case)
    missing: list[Finding] = []
    if (unread and not examined) or _blind(case):
        # Every rule about the GPUs lacked its evidence: that is no proof of health.
        failed.append(_nothing(case))
    else:
        missing = unproven(case, lacks, (*failed, *kept))
    told = weighed((*failed, *kept, *case.snapshot.symptoms), case.gpus)
    diagnosis = _verdict((*told, *missing), tuple(examined), tuple(unread), case)
    return msgspec.structs.replace(
        diagnosis, elsewhere=tuple(elsewhere), lacking=lacks, unread=unread
    )


def _without_gpus(case: Case, rules: Sequence[Rule]) -> Diagnosis:
    """Where no GPU is known: a driver that lost them all, or does not answer, may be why."""
    found: list[tuple[Rule, Finding]] = []
    failed: list[Finding] = []
    examined: list[str] = []
    for rule in rules:
        if rule.without_gpus:
            try:
                said = rule.answer(case)
            except Exception as error:  # noqa: BLE001 - as above
                failed.append(_failed(case, rule, error))
                continue
            if said is not None and rule.extra:
                examined.append(rule.id)
            found += [(rule, _disproved(case, rule, finding)) for finding in said or ()]
    left = (finding for rule, finding in found if not _implied(rule, finding, found))
    kept = [*failed, *without_told(left, case.snapshot.symptoms), *case.snapshot.symptoms]
    unexamined = tuple(rule.id for rule in rules if not rule.extra)
    # A notice is no reason to call a node without GPUs healthy, nor is a job that hangs.
    told = weighed(kept)
    harmful = any(one.severity.counts and one.origin is not Origin.JOB for one in told)
    return _verdict(told if harmful else (*told, _nothing(case)), tuple(examined), unexamined, case)


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
    shown = "" if case.on_node or count else seen(case)
    beside = f"; seen: {shown}; health is not in this text" if shown else ""
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
