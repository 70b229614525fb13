"""Compares GPUs, links, wiring and network with a reference (--expect)."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from ....expectation.reference import LINK_LETTERS, Reference, model_text
from ....hardware.vendors import AMD
from ....model.english import plural
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Basis
from ....model.severity import BROKEN, SLOW
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, NotRead, Rule, faulty, needed

_SOURCES = ("gputop check --expect; reference nodes in nodes.toml with the source of each",)


def _gpus(case: Case) -> Found:
    reference = _reference(case)
    count = len(case.gpus)
    # Somebody who picks some GPUs knows that there are others; a container or a job may have only
    # some.
    kept = case.may_hide_devices and count < (reference.gpus or 0)
    whole = len(case.machine.gpus) == reference.gpus or not case.machine.pci
    given = case.chosen or (kept and whole)
    few = reference.gpus is not None and count != reference.gpus and not given
    others = [gpu for gpu in case.gpus if _is_other(case, reference, gpu)]
    source = _sources(case, reference)
    model = " or ".join(reference.names) or model_text(reference.models)
    evidence = [("GPUs", f"{count}, and {reference.name} has {reference.gpus}", source)]
    evidence = (evidence if few else []) + [
        (f"model of {case.name(gpu)}", f"{gpu.name}, and {reference.name} has {model}", source)
        for gpu in others
    ]
    return GPUS.finding(
        BROKEN,
        f"the GPUs are not those of {reference.name}: "
        f"{f'{count} of {reference.gpus}' if not others else 'another model'}",
        devices=others,
        evidence=faulty(evidence),
        impact="A job that asks for that node does not start here, or runs on other GPUs.",
        fix=[
            vendors.step(
                case.gpus,
                "See which GPUs the PCI bus has",
                nvidia="lspci -d 10de: -nn",
                amd="lspci -d 1002: -nn",
            ),
            "Compare with another reference: --expect takes its name or a snapshot.",
        ],
    )


def _is_other(case: Case, reference: Reference, gpu: Gpu) -> bool:
    if reference.sister is not None:
        return bool(reference.names and gpu.name) and gpu.name not in reference.names
    sku = case.sku(gpu)
    return sku is not None and bool(reference.models) and sku.name not in reference.models


def _reference(case: Case) -> Reference:
    if case.reference is None:
        raise NotRead
    return case.reference


def _links(case: Case) -> Found:
    reference = _reference(case)
    wanted = reference.links_per_gpu
    counted = [(gpu, _up(gpu)) for gpu in case.gpus if not gpu.mig_enabled]
    known = needed([(gpu, count) for gpu, count in counted if count is not None])
    if wanted is None:
        return None
    few = faulty([(gpu, count) for gpu, count in known if count < wanted])
    who = _who(case, [gpu.address for gpu, _ in few])
    return of_gpus(
        LINKS,
        case,
        few,
        SLOW,
        f"{who}: fewer links than {reference.name} has",
        (
            "links of {gpu} that are up",
            lambda _, count: f"{count}, and {reference.name} has {wanted}",
            _sources(case, reference),
        ),
        impact=f"Over {case.words.any_link} {who} can move at most "
        f"{100 * min(count for _, count in few) / wanted:.0f} % of what this kind of node moves.",
        fix=[
            vendors.step(
                case.gpus,
                "See the state of every link",
                nvidia="nvidia-smi nvlink --status",
                amd="amd-smi xgmi -l",
            )
        ],
    )


def _up(gpu: Gpu) -> int | None:
    """Number of links that are up; None where the state of one is not known."""
    known = [(link.links or 1, link.active) for link in gpu.xgmi]
    known = known or [(1, link.active) for link in gpu.nvlinks]
    if not known or any(active is None for _, active in known):
        return None
    return sum(count for count, active in known if active)


def _wiring(case: Case) -> Found:
    reference = _reference(case)
    order = [gpu.address for gpu in case.machine.gpus]
    compared = 0
    wrong: list[tuple[Gpu, Gpu, str, str]] = []
    for first, second in combinations(case.gpus, 2):
        places = order.index(first.address), order.index(second.address)
        wanted = reference.code(*places, len(order))
        cell = case.matrix.cell(first.address, second.address)
        if wanted is None or cell is None or cell.code == "?" or cell.basis is Basis.ASSUMED:
            continue  # what was not read is not held against anything
        compared += 1
        if not _alike(case, cell.code, wanted):
            wrong.append((first, second, cell.code, wanted))
    if not compared:
        return None
    return [_wiring_finding(case, reference, wrong)] if wrong else []


def _alike(case: Case, found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    linked = [letters.startswith(LINK_LETTERS) for letters in (found, wanted)]
    if any(linked):
        # A reference lists links; another rule checks how many of them are up.
        return all(linked) and case.reference is not None and case.reference.sister is None
    # The tree of a virtual machine is its hypervisor's, so its letters prove nothing.
    return wanted == "PCIe" or case.in_vm is not False


def _wiring_finding(
    case: Case, reference: Reference, wrong: Sequence[tuple[Gpu, Gpu, str, str]]
) -> Finding:
    kinds = Counter((found, wanted) for _, _, found, wanted in wrong)
    devices = list(dict.fromkeys(gpu.address for pair in wrong for gpu in pair[:2]))
    return WIRING.finding(
        SLOW,
        f"{plural(len(wrong), *_PAIRS)} not joined as in {reference.name}",
        devices=devices,
        evidence=[
            (
                f"{plural(count, *_PAIRS)}: {_example(case, wrong, kind)}",
                f"{kind[0]} here, {kind[1]} there",
                _sources(case, reference),
            )
            for kind, count in kinds.items()
        ],
        impact="Collectives take the slowest of these ways, so every job over these GPUs is "
        "slower than on that node.",
        fix=[
            vendors.step(
                case.gpus,
                "See how the GPUs are connected",
                nvidia="nvidia-smi topo -m",
                amd="amd-smi topology",
            )
        ],
    )


def _example(case: Case, wrong: Sequence[tuple[Gpu, Gpu, str, str]], kind: tuple[str, str]) -> str:
    first, second, *_ = next(pair for pair in wrong if pair[2:] == kind)
    return f"{case.name(first.address)} - {case.name(second.address)}"


_PAIRS = ("pair of GPUs", "pairs of GPUs")


def _network(case: Case) -> Found:
    reference = _reference(case)
    wanted, gbit = reference.ports, reference.port_gbit
    # Without a single interface the network was not read.
    if not wanted or not (case.machine.rdma or case.machine.interfaces):
        return None
    # A matrix names NICs, and says nothing of their ports and rates.
    if any(device.why("ports") is not None and not device.ports for device in case.machine.rdma):
        return None
    rates = [port.rate_gbit for device in case.machine.rdma for port in device.ports]
    # Few fast ports are as good as many slow ones, as a job uses their sum.
    share = len(rates) / wanted
    if gbit and None not in rates:
        share = sum(rate or 0.0 for rate in rates) / (wanted * gbit)
    if share >= case.threshold(NETWORK, "minimum_share"):
        return []
    here = ", ".join(f"{count} of {_gbit(each)}" for each, count in Counter(rates).items())
    return NETWORK.finding(
        SLOW,
        f"{100 * share:.0f} % of the RDMA network of {reference.name}",
        evidence=[
            ("RDMA ports", here or "none", "/sys/class/infiniband"),
            (
                f"RDMA ports of {reference.name}",
                f"{wanted} of {_gbit(gbit)}" if gbit else f"{wanted}",
                reference.source,
            ),
        ],
        impact=f"Jobs over several nodes have {100 * share:.0f} % of the network that "
        "this kind of node has; jobs on this node alone lose nothing.",
        fix=[
            "See what the kernel names $ ls /sys/class/infiniband",
            "In a container: hand /dev/infiniband and the devices in.",
        ],
    )


def _gbit(rate: float | None) -> str:
    return "unknown rate" if rate is None else f"{rate:.0f} Gbit/s"


def _who(case: Case, addresses: Sequence[str]) -> str:
    """Devices in one short phrase."""
    if len(addresses) <= 3:
        return case.names(addresses)
    every = len(addresses) == len(case.gpus)
    return f"{'all ' if every else ''}{len(addresses)} GPUs"


def _sources(case: Case, reference: Reference) -> str:
    return f"{case.source}; {reference.source}"


GPUS = Rule(
    id="unexpected-gpus",
    title="GPUs that are not those of the expected node",
    evidence="--expect, and the GPUs by their names",
    disproof="a reference that this node is meant to be, with as many GPUs of the same model",
    sources=_SOURCES,
    implied_by=("gpu-lost", "gpu-without-driver"),
    check=_gpus,
)
LINKS = Rule(
    id="unexpected-links",
    title="GPUs with fewer links than the expected node has",
    evidence="--expect NAME, and the state of every link",
    disproof="the missing links as active in `nvidia-smi nvlink --status`",
    disproof_by=((AMD.id, "the missing links up in `amd-smi xgmi -l`"),),
    sources=_SOURCES,
    family="D12",
    implied_by=("nvlink-down", "nvlink-missing", "xgmi-link-down"),
    check=_links,
)
WIRING = Rule(
    id="unexpected-wiring",
    title="GPUs joined in another way than in the expected node",
    evidence="--expect, and the relation of every pair of GPUs",
    disproof="the reference's letters in `nvidia-smi topo -m`",
    disproof_by=((AMD.id, "the reference's links in `amd-smi topology`"),),
    sources=_SOURCES,
    implied_by=("unexpected-gpus", "unexpected-links"),
    check=_wiring,
)
NETWORK = Rule(
    id="unexpected-network",
    title="less RDMA network than the expected node has",
    evidence="--expect, and the RDMA devices of the kernel",
    disproof="ports of the same rates together in /sys/class/infiniband",
    sources=_SOURCES,
    family="D20",
    check=_network,
    thresholds=(("minimum_share", 0.9),),
)

RULES = (GPUS, LINKS, WIRING, NETWORK)
