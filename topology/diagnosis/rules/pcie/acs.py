"""Causes of peer traffic through the root complex: ACS on the path, a translating IOMMU."""

from collections.abc import Iterable, Sequence

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import redirecting
from ....model.severity import BROKEN, NOTICE, SLOW
from ...case import Case
from ...pairs import BELOW_SWITCH, Pair, devices_of, meet_in_switch, named, way
from ...rule import Found, Proof, Rule, Step, faulty, needed
from ...shared.kernel_line import kernel_argument
from ...shared.redirecting import TRANSLATED, acs_off, bridges_between, redirects

CONTROL = "PCI config space, ACS control (extended capability 0x000D, offset 6)"
_FORWARD_ONLY = "iommu.passthrough=1"
PASS_THROUGH = ("iommu=pt", "iommu=off", "intel_iommu=off", "amd_iommu=off", _FORWARD_ONLY)
_SHOWN = 6
_OFF = "Unless virtual machines here rely on it, switch off ACS"


def _peers(case: Case) -> list[Pair]:
    """Pairs that copy over PCIe: not refused, without NVLink, below a switch or near enough."""
    return [
        pair
        for pair in case.pairs
        if not pair.fast
        and not pair.mig
        and pair.granted is not False
        and (pair.code in BELOW_SWITCH or "P2P" in pair.transports)
    ]


def _check_acs(case: Case) -> Found:
    listed = _listed(case)
    # In a virtual machine ACS has to stay on: it keeps the guests apart.
    if case.in_vm is not False:
        return listed
    pairs, nics = _peers(case), _nics(case)
    ways = [device for pair in pairs for device in way(case, *pair.ends) or ()]
    read = listed is not None or bool(nics) or any(device.acs is not None for device in ways)
    if not read and (pairs or not case.pairs):
        return None
    redirected = [pair for pair in pairs if bridges_between(case, pair)]
    behind = [(gpu, nic, bad) for gpu, nic, bad in nics if bad]
    found = list(listed or ())
    if redirected:
        found.append(_acs(case, redirected))
    elif behind:
        found.append(_acs_nic(case, behind))
    return found


_HANGS = (
    "Together with an IOMMU that translates, the peer's packets can be dropped: a job hangs at its "
    "first collective, or computes with zeros."
)


_TURNED = (
    "Each packet goes up to the CPU and down again instead of turning in the switch: less "
    "bandwidth, and on some hosts packets are lost."
)


_BETWEEN_PORTS = (
    "{library} uses P2P between these root ports. On some hosts that redirect it packets are lost, "
    "and a job hangs at its first collective: measure it."
)


def _acs(case: Case, pairs: Sequence[Pair]) -> Finding:
    bridges = list(
        dict.fromkeys(bridge for pair in pairs for bridge in bridges_between(case, pair))
    )
    translated = _translated(case, devices_of(pairs))
    severity, impact = NOTICE, case.words.fill(_BETWEEN_PORTS)
    if translated and not _proven(case, pairs):
        severity, impact = BROKEN, _HANGS
    elif any(pair.code in BELOW_SWITCH for pair in pairs):
        severity, impact = SLOW, _TURNED
    return ACS_RULE.finding(
        severity,
        f"ACS sends P2P through the root complex: {named(case, pairs)}",
        devices=devices_of(pairs),
        evidence=[
            *(_control(case, bridge) for bridge in bridges[:_SHOWN]),
            *([_type(case, translated)] if translated else ()),
        ],
        impact=impact,
        fix=_clear(case, bridges),
    )


def _listed(case: Case) -> list[Finding] | None:
    """What lines of lspci without addresses show; None where there are none."""
    lines = case.machine.unnamed_acs
    if not lines or case.in_vm:
        return None
    bad = [line.acs for line in lines if redirecting(line.acs)]
    if not bad:
        return []
    return [
        ACS_RULE.finding(
            NOTICE,
            f"ACS redirects at {len(bad)} of {len(lines)} devices of a listing that does not name "
            "them",
            evidence=[
                ("controls that are on", " ".join(acs), CONTROL)
                for acs in list(dict.fromkeys(bad))[:_SHOWN]
            ],
            impact="Where such a bridge stands between two GPUs, or a GPU and a NIC, each "
            "packet between them goes up to the CPU: they are slower, and on some hosts packets "
            "are lost and jobs hang. Elsewhere, and in a virtual machine, it does no harm.",
            fix=[
                "List the bridges by name, and give --from all of it. # lspci -vvv",
                (
                    f"{_OFF} on the bridges above GPUs and NICs; it comes back at the next start. "
                    "# setpci -s BRIDGE ECAP_ACS+6.w=0000"
                ),
            ],
        )
    ]


def _control(case: Case, bridge: str) -> Proof:
    device = case.pci(bridge)
    controls = (device.acs if device is not None else None) or ()
    kind = device.kind if device is not None else "bridge"
    return (f"ACS of {kind} {bridge}", " ".join(controls), CONTROL)


def _type(case: Case, addresses: Sequence[str]) -> Proof:
    kinds = {d.iommu_type for address in addresses if (d := case.pci(address)) is not None}
    return (
        f"IOMMU type of {case.names(addresses)}",
        ", ".join(sorted(filter(None, kinds))),
        "/sys/kernel/iommu_groups/*/type",
    )


def _clear(case: Case, bridges: Sequence[str]) -> list[Step]:
    return [
        acs_off(f"{_OFF} on these bridges; it comes back at the next start.", bridges[:16]),
        "Switch off ACS, or the IOMMU where nothing needs it, in the firmware setup.",
        (
            f"Until then, keep {case.words.library}'s P2P to {case.words.link}; the rest goes "
            "through host memory. $ export NCCL_P2P_LEVEL=NVL"
        ),
    ]


def _nics(case: Case) -> list[tuple[str, str, tuple[str, ...]]]:
    """GPU, RDMA device under the same switch, and the bridges between that redirect."""
    found = []
    for nic in case.machine.rdma:
        if nic.address is None:
            continue
        for gpu in case.gpus:
            if not meet_in_switch(case, gpu.address, nic.address):
                continue
            bridges = way(case, gpu.address, nic.address) or ()
            if any(device.acs is not None for device in bridges):
                bad = [device.address for device in bridges if redirects(device)]
                found.append((gpu.address, nic.address, tuple(bad)))
    return found


def _acs_nic(case: Case, behind: Sequence[tuple[str, str, tuple[str, ...]]]) -> Finding:
    bridges = list(dict.fromkeys(bridge for _, _, bad in behind for bridge in bad))
    names = [f"{case.name(gpu)} and {case.name(nic)}" for gpu, nic, _ in behind]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ACS_RULE.finding(
        SLOW,
        f"ACS sends GPUDirect RDMA through the root complex: {', '.join(names[:3])}{more}",
        devices=sorted({end for gpu, nic, _ in behind for end in (gpu, nic)}),
        evidence=[_control(case, bridge) for bridge in bridges[:_SHOWN]],
        impact="GPU and NIC share a switch, but their packets go up to the CPU and back: "
        "RDMA between nodes is slower. A job on this node alone does not notice.",
        fix=_clear(case, bridges)[:2],
    )


def _proven(case: Case, pairs: Sequence[Pair]) -> bool:
    """Whether the bytes of all these pairs were measured and arrived."""
    return all(pair.ends in case.arrived for pair in pairs)


def _translated(case: Case, addresses: Iterable[str]) -> list[str]:
    """The devices whose addresses an IOMMU translates."""
    devices = [case.pci(address) for address in addresses]
    return [
        device.address
        for device in devices
        if device is not None and device.iommu_type in TRANSLATED
    ]


def _check_iommu(case: Case) -> Found:
    if case.in_vm is not False:
        return None
    devices = [case.pci(gpu.address) for gpu in case.gpus]
    needed([device for device in devices if device is not None and device.iommu_type is not None])
    nvidia = [gpu.address for gpu in case.gpus if gpu.vendor == NVIDIA.id]
    translated = set(_translated(case, nvidia))
    pairs = faulty([pair for pair in _peers(case) if translated.issuperset(pair.ends)])
    proven = _proven(case, pairs)
    evidence = [_type(case, devices_of(pairs))]
    flags = case.host.cmdline_flags
    if flags is not None and not any(flag in PASS_THROUGH for flag in flags):
        shown = " ".join(flags) or "no argument about the IOMMU"
        evidence.append(("kernel arguments", shown, "/proc/cmdline"))
    return IOMMU.finding(
        NOTICE if proven else SLOW,
        f"the IOMMU translates P2P over PCIe: {named(case, pairs)}",
        devices=devices_of(pairs),
        evidence=evidence,
        impact="Each packet goes up to the IOMMU and down again. "
        + (
            "The bytes were measured and arrived."
            if proven
            else "NVIDIA does not support P2P over PCIe in this state: data may be wrong "
            "without an error. Measure whether data arrives intact."
        ),
        fix=[
            "Measure it. $ gputop probe p2p nccl",
            kernel_argument("Start the kernel with iommu=pt.", "iommu=pt"),
        ],
    )


ACS_RULE = Rule(
    id="acs-redirect",
    family="D02",
    title="ACS that sends peer traffic through the root complex",
    evidence="ACS control of each bridge between two devices (root reads it), on bare metal",
    disproof="neither ReqRedir+ nor CmpltRedir+ in `lspci -vvv` of a bridge between the two; "
    "SrcValid+ and UpstreamFwd+ alone do not redirect",
    sources=("NVIDIA/nccl#2079", "NVIDIA/nccl#606", "NCCL user guide, troubleshooting"),
    check=_check_acs,
    without_gpus=True,
    implied_by=("p2p-data-wrong",),
)
IOMMU = Rule(
    id="iommu-translated",
    family="D02",
    title="an IOMMU that translates addresses of P2P over PCIe",
    evidence="type of the IOMMU group of each GPU, on bare metal",
    disproof="identity in /sys/kernel/iommu_groups/*/type of the GPU's group",
    sources=("NVIDIA/nccl#257", "NVIDIA/nccl#667", "CUDA C++ programming guide, IOMMU on Linux"),
    check=_check_iommu,
    implied_by=("p2p-data-wrong", "acs-redirect"),
)

RULES = (ACS_RULE, IOMMU)
