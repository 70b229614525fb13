"""PCIe uplinks that several GPUs share."""

from ....model import quantities
from ....model.machine import PciKind
from ....model.severity import BY_DESIGN
from ....model.units import gbs
from ...case import Case
from ...rule import Found, Rule, needed


def _check_uplink(case: Case) -> Found:
    """Find copies through one uplink that are fast alone and slow together."""
    alone = _host_figures(case, "pinned")
    together = _host_figures(case, "pinned, all GPUs at once")
    both = needed([address for address in alone if address in together])
    least = case.threshold(UPLINK, "minimum_share")
    slow = [gpu for gpu in both if together[gpu] < least * alone[gpu]]
    found = []
    for port, below in _shared(case, slow).items():
        if len(below) < 2:
            continue
        what = case.pci(port)
        kind = what.kind if what is not None else "port"
        found.append(
            UPLINK.finding(
                BY_DESIGN,
                f"{case.names(below)} share one PCIe uplink",
                devices=below,
                evidence=[
                    *(
                        (
                            f"host to {case.name(gpu)}",
                            f"{gbs(alone[gpu])} alone, {gbs(together[gpu])} with all at once",
                            "probe host",
                        )
                        for gpu in below[:6]
                    ),
                    ("the port above all of them", f"{kind} {port}", "sysfs bus/pci/devices"),
                ],
                impact="GPUs that load data at the same time divide the uplink: "
                f"{gbs(sum(together[gpu] for gpu in below))} for {len(below)} together.",
            )
        )
    return found


def _host_figures(case: Case, variant: str) -> dict[str, float]:
    return {
        figure.src: figure.value
        for figure in case.figures(quantities.HOST_TO_DEVICE, variant)
        if figure.src and figure.value and not figure.wrong
    }


def _shared(case: Case, addresses: list[str]) -> dict[str, list[str]]:
    """Upper end of the nearest uplink that several of these GPUs share -> those GPUs."""
    above: dict[str, list[str]] = {}
    for address in addresses:
        for device in case.way_up(address):
            if device.kind == PciKind.UPSTREAM:
                above.setdefault(device.address, []).append(address)
    kept: dict[str, list[str]] = {}
    for port, below in sorted(above.items(), key=lambda item: len(item[1])):
        if len(below) > 1 and not any(set(below) >= set(other) for other in kept.values()):
            kept[port] = below
    return kept


UPLINK = Rule(
    id="shared-uplink",
    family="D39",
    title="PCIe uplinks that several GPUs share",
    evidence="probe host: each GPU alone and all at once; the PCI tree",
    disproof="the same GB/s with all GPUs at once as alone",
    sources=("NVIDIA/nccl#44",),
    check=_check_uplink,
    thresholds=(("minimum_share", 0.75),),
)


RULES = (UPLINK,)
