"""P2P that the driver refuses because of the product, the chipset or a setting."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....hardware.vendors import AMD
from ....model import quantities
from ....model.finding import Finding
from ....model.severity import BY_DESIGN, NOTICE, SLOW
from ... import vendors
from ...case import Case
from ...pairs import BELOW_SWITCH, NOT_GRANTED, OK, Pair, devices_of, named
from ...rule import Found, Rule
from ...shared.p2p_grants import SHOWN, grant_of, whole_pairs

PRODUCT = "gpu not supported"
REGISTRY = "disabled by registry key"
TOPOLOGY = "topology not supported"
"""Between sockets of older hosts P2P never worked."""
CONSUMER = re.compile(r"geforce|titan", re.IGNORECASE)
"""Boards where the driver's other words of refusal, CNS or NS, mean the product as well."""


def _check_product(case: Case) -> Found:
    return _split(case, by_product=True)


def _check_refused(case: Case) -> Found:
    return _split(case, by_product=False)


def _split(case: Case, *, by_product: bool) -> list[Finding] | None:
    reported = [pair for pair in whole_pairs(case) if pair.words]
    if not reported:
        return None
    asked = [pair for pair in reported if not pair.fast]
    groups: dict[str, list[Pair]] = {}
    for pair in asked:
        word = next((word for word in pair.words if word != OK), None)
        if word is not None and _is_product(pair, word) == by_product:
            groups.setdefault(word, []).append(pair)
    made = _by_product if by_product else _by_platform
    return [made(case, pairs, word) for word, pairs in groups.items()]


def _is_product(pair: Pair, word: str) -> bool:
    if word == PRODUCT:
        return True
    consumer = any(CONSUMER.search(gpu.name or "") for gpu in (pair.one, pair.other))
    return consumer and word in ("chipset not supported", "not supported", NOT_GRANTED)


def _by_product(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    model = pairs[0].one.name or "this model"
    return BY_PRODUCT.finding(
        BY_DESIGN,
        f"no P2P between {case.names(devices_of(pairs))}: the product does not have it",
        devices=devices_of(pairs),
        evidence=[grant_of(case, pair) for pair in pairs[:SHOWN]],
        impact=f"The driver grants no P2P on {model} ({word}). {case.words.library} goes "
        "through host memory "
        "(SHM), and no setting of the firmware changes that." + _staged(case, pairs),
    )


def _by_platform(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    # The hypervisor invents the tree of a virtual machine: a switch there proves nothing.
    near = [pair for pair in pairs if pair.letters in BELOW_SWITCH and not case.in_vm]
    severity = SLOW if word == REGISTRY or near else NOTICE
    if word == TOPOLOGY and not near:
        severity = BY_DESIGN
    shown = near or list(pairs)
    why = (
        "A switch could carry it; staged through host memory it takes two copies."
        if near
        else f"{case.words.library} would not use it over a host bridge by default."
    )
    if word == REGISTRY:
        why = "A parameter of the NVIDIA module switches it off: every copy goes over host memory."
    what = f"the driver refuses P2P ({word})"
    if _relayed(case, shown):
        what = f"no direct P2P ({word}), another GPU relays it"
        why = (
            f"{case.words.library} goes over {case.words.links} through a GPU that both reach, by "
            "P2P from hop to hop."
        )
    asks = vendors.command(case.gpus, nvidia="nvidia-smi topo -p2p r", amd="amd-smi topology")
    fix = [f"See what the driver grants. $ {asks}"]
    if word == REGISTRY:
        fix.append(
            "Take the key out of the module's options and load it again. "
            "$ grep -r nvidia /etc/modprobe.d; cat /proc/driver/nvidia/params"
        )
    elif vendors.amd([gpu for pair in pairs for gpu in (pair.one, pair.other)]):
        fix.append(
            "See whether the kernel has CONFIG_HSA_AMD_P2P and the BARs hold the memory: "
            "amdgpu needs both for P2P over PCIe. $ grep HSA_AMD_P2P /boot/config-$(uname -r)"
        )
    else:
        fix.append("Try a newer driver: it carries the list of chipsets that are supported.")
    return REFUSED.finding(
        severity,
        f"{what}: {named(case, shown)}",
        devices=devices_of(pairs),
        evidence=[grant_of(case, pair) for pair in shown[:SHOWN]],
        impact=why + _staged(case, shown),
        fix=fix,
    )


def _relayed(case: Case, pairs: Sequence[Pair]) -> bool:
    """Whether the library is predicted to pass the bytes of all these pairs through another GPU."""
    if case.prediction is None:
        return False
    relayed = {
        (pair.src_bus_id, pair.dst_bus_id) for pair in case.prediction.pairs if pair.via is not None
    }
    return all((one, other) in relayed for one, other in (pair.ends for pair in pairs))


def _staged(case: Case, pairs: Sequence[Pair]) -> str:
    ends = {pair.ends for pair in pairs} | {pair.ends[::-1] for pair in pairs}
    measured = [
        figure.value
        for figure in case.figures(quantities.STAGED)
        if (figure.src, figure.dst) in ends and figure.value is not None
    ]
    return f" Measured through host memory: {min(measured):.3g} GB/s." if measured else ""


_THREADS = ("nvbandwidth#13", "nccl#1637", "nccl#1127")
BY_PRODUCT = Rule(
    id="p2p-refused-by-product",
    family="D14",
    title="GPU models without P2P",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    disproof_by=((AMD.id, "ENABLED between the two in `amd-smi topology`"),),
    sources=tuple(f"NVIDIA/{thread}" for thread in _THREADS),
    check=_check_product,
)

REFUSED = Rule(
    id="p2p-refused",
    family="D14",
    title="P2P refused by chipset, topology or a setting",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    disproof_by=((AMD.id, "ENABLED between the two in `amd-smi topology`"),),
    sources=(
        "NVIDIA/nvbandwidth#15",
        "NVIDIA/nccl#1127",
        "nvml.h nvmlGpuP2PStatus_t",
        "Linux drivers/gpu/drm/amd/amdkfd/Kconfig",
    ),
    check=_check_refused,
)


RULES = (REFUSED, BY_PRODUCT)
