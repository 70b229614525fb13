"""The least that has to be known of each GPU before a node is called healthy.

A vendor's record says what that is. What a product does not have is not missing: NVLinks of a PCIe
card, under MIG or in a vGPU, and of a GPU that is alone; error counts of memory without ECC.
"""

import re
from collections.abc import Sequence

import msgspec

from ..hardware.specs import WIRED
from ..hardware.vendor import BUS, DRIVER, ERRORS, LINKS, MEMORY, UNNAMED, Needed
from ..hardware.vendors import vendor_of
from ..model.finding import Finding
from ..model.machine import Fabric, Gpu
from ..model.page import Fact, Fix
from ..model.record import NOT_ASKED, Record
from ..model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from ..sources.collect import ONLY_PCI
from .case import Case
from .inventory import read_of

LACKING = "evidence-missing"
"""Id of the finding that too little is known of some GPUs to call them healthy."""
_EXPLAIN = (
    "driver-not-answering", "device-node-denied", "driver-mismatch", "driver-fails", "gpu-lost",
    "gpu-reset-required", "gpu-without-driver", "vendor-unknown",
)  # fmt: skip
"""Findings that say why nothing is known of a GPU."""
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
_REGISTERED = "completed"


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
        on_bus = case.on_node or case.pci(gpu.address) or case.pci(gpu.parent or "")
        return None if on_bus else NOT_ASKED
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
        known = value.state == _REGISTERED
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
    explained = {
        device for finding in heard if finding.id in _EXPLAIN for device in finding.devices
    }
    open_lacks = [
        msgspec.structs.replace(lack, devices=rest)
        for lack in lacks
        if (rest := tuple(device for device in lack.devices if device not in explained))
    ]
    if not open_lacks:
        return []
    shown = read_of(case)
    this = "this" if case.on_node else "this text"
    count = f"{len(shown)} thing{'s' * (len(shown) != 1)}"
    heard_of = {finding.severity for finding in heard}
    wrong = "broken or slow" if NOTICE in heard_of else "wrong"
    well = f"nothing {wrong} in the {count} that {this} can show; "
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
