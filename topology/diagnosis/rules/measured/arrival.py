"""Granted and measured P2P: bytes that do not arrive, and P2P that gains nothing."""

from statistics import median

from ....expectation.patterns import host_low
from ....hardware.vendors import NVIDIA
from ....model import quantities
from ....model.english import listing
from ....model.finding import Finding
from ....model.record import by_address
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.snapshot import Measurement
from ....model.units import figure as three
from ....model.units import gbs
from ....nccl.prediction import P2P
from ...case import Case
from ...pairs import THROUGH_HOST, Pair, devices_of, named
from ...rule import Found, Proof, Rule, Step, faulty, needed
from ...shared.kernel_line import kernel_argument
from ...shared.redirecting import TRANSLATED, acs_off
from .figures import VERIFIED, ends_of, on_gpus

WRONG = ("wrong-bytes", "wrong-data")
_SHOWN = 6


_ARRIVED = "arrived"
_FAILED = "failed"
_LOSES = (
    "A job computes with wrong numbers, or waits for ever for bytes that never come; nothing "
    "reports an error."
)
_BY_NCCL, _AMD_CPU = "nccl", "AuthenticAMD"


def _check_data(case: Case) -> Found:
    figures = needed([figure for figure in on_gpus(case) if _of_pair(case, figure)])
    wrong = faulty([figure for figure in figures if figure.verdict in WRONG or _failed(figure)])
    fails = all(map(_failed, wrong))
    who = ends_of(wrong)
    ends = list(dict.fromkeys((figure.src or "", figure.dst or "") for figure in wrong))
    ways = [_way(case, pair) for pair in ends]
    shown = listing(ways, 4) if len(ways) > 4 else ", ".join(ways)
    causes, fixes = _causes(case, who)
    return DATA.finding(
        BROKEN,
        f"P2P is granted, but {'a copy fails' if fails else 'the data is wrong'}: {shown}",
        devices=who,
        evidence=[*(_seen(case, figure) for figure in wrong[:_SHOWN]), *causes],
        impact="A job that uses P2P ends with an error of CUDA or HIP." if fails else _LOSES,
        fix=[
            *fixes,
            f"Until it is repaired, let {case.words.library} go through host memory. "
            "$ export NCCL_P2P_DISABLE=1",
        ],
    )


def _way(case: Case, ends: tuple[str, str]) -> str:
    return " to ".join(map(case.name, ends))


def _of_pair(case: Case, figure: Measurement) -> bool:
    counted = {gpu.address for gpu in case.gpus}
    return (
        counted.issuperset((figure.src, figure.dst))
        and figure.probe != _BY_NCCL
        and (figure.verdict in (_ARRIVED, VERIFIED, *WRONG) or _failed(figure))
    )


def _failed(figure: Measurement) -> bool:
    """Whether a store into a peer's memory ended with an error other than a full GPU's."""
    stored = figure.quantity == quantities.BYTES_ARRIVE and figure.verdict == _FAILED
    why = (figure.why_none or "").lower()
    return stored and bool(why) and "out of memory" not in why


def _seen(case: Case, figure: Measurement) -> Proof:
    what = (
        "bytes" if figure.quantity == quantities.BYTES_ARRIVE else figure.quantity.replace("_", " ")
    )
    wrong = figure.details.get("wrong_bytes")
    counted = isinstance(wrong, int) and not isinstance(wrong, bool)
    return (
        f"{what}, {case.name(figure.src or '')} to {case.name(figure.dst or '')}",
        (figure.verdict or "")
        + (f", {wrong} bytes differ" if counted else "")
        + (f": {figure.why_none[:200]}" if figure.why_none else ""),
        f"{figure.source}, compared by the owner of the memory",
    )


def _causes(case: Case, who: list[str]) -> tuple[list[Proof], list[Step]]:
    """The usual causes, as far as they were read, and their fixes."""
    evidence: list[Proof] = []
    fixes: list[Step] = []
    # Where bytes are lost, DirectTrans is no excuse: few GPUs translate addresses themselves.
    above = (device for gpu in who for device in case.way_up(gpu)[1:] if device.redirects)
    bridges = list(by_address(above))
    if bridges and case.in_vm is False:
        evidence.append(
            (
                "bridges above these GPUs whose ACS redirects",
                ", ".join(bridges[:4]),
                "PCI config space, ACS control",
            )
        )
        fixes.append(
            acs_off(
                "Switch off ACS on the bridges of the path (lost at restart), unless virtual "
                "machines here rely on it.",
                bridges[:8],
            )
        )
    kinds = case.iommu_types(who)
    translated = [gpu for gpu, kind in kinds.items() if kind in TRANSLATED]
    if translated:
        evidence.append(
            (
                f"IOMMU type of {case.names(translated)}",
                str(kinds[translated[0]]),
                "/sys/kernel/iommu_groups/*/type",
            )
        )
        fixes.append(kernel_argument("Start the kernel with iommu=pt.", "iommu=pt"))
    return evidence, fixes


def _check_staging(case: Case) -> Found:
    direct, staged = _values(case, quantities.WRITE), _values(case, quantities.STAGED)
    both = needed([ends for ends in direct if ends in staged])
    least = case.threshold(STAGING, "minimum_share")
    slow = faulty([ends for ends in both if direct[ends] < least * staged[ends]])
    share = median(direct[ends] / staged[ends] for ends in both)
    if (
        len(slow) == len(both)
        and not _cleared(case)
        and share < case.threshold(STAGING, "lost_share")
    ):
        return _turned_away(case, slow, direct, staged)
    pairs = case.prediction.pairs if case.prediction is not None else ()
    by_p2p = {(pair.src_bus_id, pair.dst_bus_id) for pair in pairs if pair.transport == P2P}
    taken = [ends for ends in slow if ends in by_p2p]
    first = (taken or slow)[0]
    return STAGING.finding(
        SLOW if taken else NOTICE,
        "P2P is slower than a copy through host memory: "
        + ", ".join(_way(case, ends) for ends in (taken or slow)[:4]),
        devices=sorted({end for ends in slow for end in ends}),
        evidence=[_both(case, ends, direct, staged) for ends in slow[:_SHOWN]],
        impact=(
            f"{case.words.library} takes P2P here: {gbs(direct[first])} where "
            f"{gbs(staged[first])} are possible."
            if taken
            else f"{case.words.library} does not take P2P for these pairs; other programs may."
        ),
        fix=[
            f"Let {case.words.library} use P2P below PCIe switches alone, then measure "
            "again. $ export NCCL_P2P_LEVEL=PXB"
        ],
    )


def _cleared(case: Case) -> bool:
    """Whether neither an IOMMU nor ACS is on the way of any GPU, by all that it takes to know."""
    ways = [case.way_up(gpu.address) for gpu in case.gpus]
    return bool(ways) and all(
        way
        and way[0].iommu_type not in (None, *TRANSLATED)
        and all(device.acs is not None and not device.redirects for device in way[1:])
        for way in ways
    )


def _turned_away(
    case: Case,
    ends: list[tuple[str, str]],
    direct: dict[tuple[str, str], float],
    staged: dict[tuple[str, str], float],
) -> Finding:
    """Say what makes P2P of all pairs slower than two copies: what they share, not one link."""
    some, most = ([values[pair] for pair in ends] for values in (direct, staged))
    spans = [f"{three(min(values))} to {gbs(max(values))}" for values in (some, most)]
    who = sorted({end for pair in ends for end in pair})
    causes, fixes = _causes(case, who)
    return STAGING.finding(
        SLOW,
        f"P2P of all pairs is slower than through host memory ({spans[0]} against {spans[1]}): "
        "usually an IOMMU that translates, or ACS, on the way; not one GPU's link",
        devices=who,
        evidence=[
            *(_both(case, pair, direct, staged) for pair in ends[:_SHOWN]),
            *(
                (f"{case.name(gpu)} through host memory", low, "the same copies")
                for gpu in who
                if (low := host_low(case.node, gpu))
            ),
            *causes,
        ],
        impact="In this state jobs are slow, hang at their first collective, or compute with wrong "
        "data. Which of the two causes it is, these figures do not tell.",
        fix=fixes
        or [
            "See whether the IOMMU is on and translates. # dmesg | grep -iE 'iommu|DMAR|AMD-Vi'",
            "See whether bridges redirect. # lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
            kernel_argument(
                "Start the kernel with iommu=pt, or switch IOMMU and ACS off in the firmware.",
                "iommu=pt",
            ),
            f"Until then, let {case.words.library} go through host memory. "
            "$ export NCCL_P2P_DISABLE=1",
        ],
    )


def _both(
    case: Case,
    ends: tuple[str, str],
    direct: dict[tuple[str, str], float],
    staged: dict[tuple[str, str], float],
) -> Proof:
    return (
        f"{_way(case, ends)}, one way",
        f"{gbs(direct[ends])} by P2P, {gbs(staged[ends])} through host memory",
        case.figures(quantities.WRITE)[0].source,
    )


def _values(case: Case, quantity: str) -> dict[tuple[str, str], float]:
    return {
        (figure.src, figure.dst): figure.value
        for figure in case.figures(quantity)
        if figure.src and figure.dst and figure.value and not figure.wrong
    }


def _check_bridge(case: Case) -> Found:
    if case.host.cpu_vendor is None or case.prediction is None or not case.pairs:
        return None
    if case.host.cpu_vendor != _AMD_CPU or "NCCL_P2P_LEVEL" in case.variables:
        return []
    across = [pair for pair in case.pairs if _across(pair) and pair.ends not in case.arrived]
    return _bridge(case, faulty(across)) if len(case.pairs) == 1 else ()


def _across(pair: Pair) -> bool:
    both = pair.one.vendor == pair.other.vendor == NVIDIA.id
    return both and pair.code in THROUGH_HOST and "P2P" in pair.transports


def _bridge(case: Case, across: list[Pair]) -> Finding:
    pair = across[0]
    return BRIDGE.finding(
        NOTICE,
        f"{case.words.library} uses P2P across the host bridge: {named(case, across)}",
        devices=devices_of(across),
        evidence=[
            (f"relation of {named(case, across)}", pair.code, "nvidia-smi topo -m"),
            (
                f"transport of {case.words.library}",
                (
                    "P2P: with two GPUs on an AMD host its limit is SYS, not PXB "
                    f"({case.host.cpu_model_name or case.host.cpu_vendor})"
                ),
                "NCCL src/graph/paths.cc ncclTopoCheckP2p",
            ),
        ],
        impact="Some hosts lose bytes on this way, and then a job hangs at its first "
        "collective; on others it is slower than host memory. It was not measured here.",
        fix=[
            "Measure it. $ gputop probe p2p nccl",
            "If it hangs or is slow, keep P2P below PCIe switches. $ export NCCL_P2P_LEVEL=PXB",
        ],
    )


DATA = Rule(
    id="p2p-data-wrong",
    family="D16",
    title="P2P that loses or corrupts data",
    evidence="probe p2p: bytes written by one GPU, read and compared by the owner of the memory",
    disproof="the verdict arrived for the pair in a second `gputop probe p2p`",
    sources=("NVIDIA/nccl#2335", "NVIDIA/nccl#2079", "NVIDIA/nvbandwidth#19"),
    check=_check_data,
)
STAGING = Rule(
    id="p2p-slower-than-staging",
    family="D15",
    title="P2P slower than a copy through host memory",
    evidence="probe p2p: the same copy by P2P and through pinned host memory",
    disproof="a second measurement on idle GPUs in which P2P is the faster one",
    sources=("NVIDIA/nccl#814", "NVIDIA/nccl-tests#74"),
    check=_check_staging,
    implied_by=("p2p-data-wrong", "links-unused"),
    thresholds=(("minimum_share", 0.9), ("lost_share", 0.5)),
    without_gpus=True,
)
BRIDGE = Rule(
    id="p2p-across-host-bridge",
    family="D15",
    title="P2P across the host bridge, which {library} takes with two GPUs on AMD hosts",
    evidence="vendor of the CPU, relation of the two GPUs, transport that {library} will use",
    disproof="`gputop probe p2p nccl`: data arrives intact, and P2P beats host memory",
    sources=("NVIDIA/nccl#2079", "NVIDIA/nccl src/graph/paths.cc"),
    check=_check_bridge,
    implied_by=("p2p-data-wrong", "acs-redirect", "p2p-slower-than-staging"),
)

RULES = (DATA, STAGING, BRIDGE)
