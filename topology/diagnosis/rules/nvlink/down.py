"""NVLinks that are down or missing, and GPUs that no link joins to their sisters."""

from collections.abc import Sequence

from ....expectation.cost.costs import costs_of, worst_copy
from ....hardware.specs import BoardLinks
from ....hardware.vendors import AMD, NVIDIA
from ....model.element import BASE_FILE, NOT_IN_XML
from ....model.english import plural
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Basis
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.units import figure, gbs, sentence
from ....sources.collect import ONLY_PCI
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...pairs import Pair
from ...rule import Found, Rule, Step, faulty, needed

STATE = "NVML nvmlDeviceGetNvLinkState"
REPAIR = (
    "Read the state of each link. $ nvidia-smi nvlink -s",
    "Look for Xid 74 and 144 to 150 in the kernel's log. # dmesg | grep -i xid",
    (
        "Drain the node, which stops every job on these GPUs; then reset them or restart it. If "
        "the link stays down, have the GPU, baseboard or bridge looked at. "
        "# nvidia-smi --gpu-reset"
    ),
)
_SWITCH = "NVreg_NvLinkDisable"
"""Parameter of the module that keeps all NVLinks down; 0, the default, is left out of a host."""
_IF_MEANT = "If they are switched off on purpose, silence this rule."
_ASK_HOST = (
    "Ask whoever runs the host for the NVLinks and NVSwitches of the board: a guest that has all "
    "its GPUs can have them too."
)


def up(gpu: Gpu) -> int:
    """How many NVLinks are active."""
    return sum(1 for link in gpu.nvlinks if link.active)


def down(gpu: Gpu) -> tuple[int, ...]:
    """Numbers of the NVLinks that are not active."""
    return tuple(link.link for link in gpu.nvlinks if link.active is False)


def links_read(case: Case) -> list[Gpu]:
    """GPUs whose links were read; under MIG the state of links says nothing."""
    return [
        gpu
        for gpu in case.gpus
        if not gpu.mig_enabled and any(link.active is not None for link in gpu.nvlinks)
    ]


def alike(case: Case, gpu: Gpu) -> list[Gpu]:
    """The other GPUs of its model here, without those under MIG."""
    return [
        other
        for other in case.machine.gpus
        if other.address != gpu.address and other.name == gpu.name and not other.mig_enabled
    ]


def _check_down(case: Case) -> Found:
    known = needed(links_read(case))
    if not any(case.devices.links_up.values()):
        return _all_down(case, known)
    sick = [
        (gpu, *case.devices.expected_links(gpu))
        for gpu in known
        if down(gpu) and case.devices.links_missing(gpu)
    ]
    return _down(case, sick) if sick else ()


def _all_down(case: Case, known: Sequence[Gpu]) -> list[Finding]:
    """No link is up anywhere: a fault on a whole board, else the design of the instance."""
    wired = [gpu for gpu in known if case.sku(gpu) is not None and case.devices.wired(gpu)]
    # A single GPU has no peer; its links may well be switched off.
    if len(wired) < 2:
        return []
    why = _excuse(case, wired)
    return [
        DOWN.finding(
            NOTICE if why else SLOW,
            f"no NVLink of {case.names(wired)} is up",
            devices=wired,
            evidence=[
                (f"NVLinks of {case.name(gpu)} that are up", f"0 of {len(gpu.nvlinks)}", STATE)
                for gpu in wired
            ],
            impact="All traffic between GPUs goes over PCIe or host memory, at a tenth of "
            f"what NVLink gives. {why or _IF_MEANT}",
            fix=REPAIR if case.in_vm is False else (*REPAIR[:1], _ASK_HOST),
        )
    ]


def _excuse(case: Case, wired: Sequence[Gpu]) -> str:
    """Why these GPUs may be meant to have no NVLink; "" where nothing says so."""
    if any(key.startswith(_SWITCH) for key in case.host.nvidia_registry):
        return f"They are switched off on purpose: {_SWITCH} is set for the module nvidia."
    software = case.machine.software
    if software is not None and software.confidential:
        return "Under confidential computing that can be meant."
    if case.in_vm is False or all(_whole_board(case, gpu) for gpu in wired):
        return ""
    return "A cloud may hand out some GPUs of such a board without their links."


def _whole_board(case: Case, gpu: Gpu) -> bool:
    """Whether this machine has as many GPUs of the model as a board of it."""
    sku = case.sku(gpu)
    world = (sku.world_size if sku is not None else None) or 0
    return world > 0 and len(alike(case, gpu)) + 1 >= world


def _listed(case: Case, gpu: Gpu) -> bool:
    """Whether all links of a GPU are known, and none of them is down."""
    if gpu.vendor != NVIDIA.id or gpu.mig_enabled or gpu.why("nvlinks") is not None:
        return False
    if not all(link.active for link in gpu.nvlinks):
        return False
    # Without a driver a GPU has no list of links; NCCL's XML has a list but no UUID.
    switched = bool(gpu.nvlinks) and _switched(gpu)
    return gpu.uuid is not None or switched or _left_out(case, gpu)


def _down(case: Case, sick: Sequence[tuple[Gpu, int, str]]) -> Finding:
    links = sum(most - up(gpu) for gpu, most, _ in sick)
    return of_gpus(
        DOWN,
        case,
        sick,
        SLOW,
        f"{plural(links, 'NVLink')} of {{gpus}} {'are' if links > 1 else 'is'} down",
        (
            "NVLinks of {gpu} that are up",
            lambda gpu, most, by: f"{up(gpu)} of {most}; down: {', '.join(map(str, down(gpu)))}",
            lambda gpu, most, by: f"{STATE}; {most} by {by}",
        ),
        brief=f"{up(sick[0][0])} of {sick[0][1]} NVLinks",
        impact=price(case, sick),
        cost=_cost(case, sick),
        fix=REPAIR,
    )


def _cost(case: Case, sick: Sequence[tuple[Gpu, int, str]]) -> str:
    """What an all-reduce loses, else a copy of the sickest GPU, for a column."""
    gpu = min(sick, key=lambda entry: up(entry[0]) / entry[1])[0]
    known = (costs_of(case.node).all_reduce, worst_copy(case.node, gpu))
    return next((cost.brief for cost in known if cost is not None and cost.lost), "")


def price(case: Case, sick: Sequence[tuple[Gpu, int, str]]) -> str:
    """What is left, in figures of the model."""
    gpu, most, _ = min(sick, key=lambda entry: up(entry[0]) / entry[1])
    sku = case.sku(gpu)
    share = up(gpu) / most
    if not share:
        return (
            f"Nothing of {case.name(gpu)} goes over NVLink: it reaches the others over "
            "PCIe, host memory or the network, and so does every collective that it is part of."
        )
    text = f"{case.name(gpu)} has {share:.0%} of its NVLink bandwidth".replace("%", " %")
    if sku is not None and sku.link_gbs:
        whole = most * sku.link_gbs
        text += f" ({figure(whole * share)} of {gbs(whole)} payload one way)"
    costs = costs_of(case.node)
    known = (costs.all_reduce, worst_copy(case.node, gpu))
    told = [cost.text for cost in known if cost is not None and cost.lost]
    tail = "a collective runs at the pace of its slowest GPU"
    why = "" if costs.all_reduce is None else costs.all_reduce.because
    tail += f"; {why}" if why else ""
    return f"{text}. {sentence('; '.join((*told, tail)))}"


def _check_missing(case: Case) -> Found:
    needed(links_read(case))
    expected = [(gpu, *case.devices.expected_links(gpu)) for gpu in case.gpus if _listed(case, gpu)]
    sick = faulty([(gpu, most, by) for gpu, most, by in expected if up(gpu) < most])
    return of_gpus(
        MISSING,
        case,
        sick,
        NOTICE if _perhaps_cut(case, sick) else SLOW,
        f"{{gpus}} {'shows' if len(sick) == 1 else 'show'} fewer NVLinks than belong there",
        (
            "NVLinks",
            lambda gpu, most, by: f"{up(gpu)} of {most}",
            lambda gpu, most, by: f"{STATE if gpu.uuid else case.source}; {most} by {by}",
        ),
        impact=price(case, sick),
        cost=_cost(case, sick),
        fix=REPAIR,
        brief=f"{up(sick[0][0])} of {sick[0][1]} NVLinks",
    )


def _perhaps_cut(case: Case, sick: Sequence[tuple[Gpu, int, str]]) -> bool:
    """Whether a text that shows one GPU may just end within the list of its links."""
    numbers = [link.link for link in sick[0][0].nvlinks]
    told = numbers == list(range(len(numbers)))
    return not case.on_node and len(case.gpus) == 1 and told


def _switched(gpu: Gpu) -> bool:
    return all(link.to_switch for link in gpu.nvlinks)


def _left_out(case: Case, gpu: Gpu) -> bool:
    """Whether NCCL's own file links siblings to NVSwitches and has no NVLink of this GPU."""
    others = [other for other in alike(case, gpu) if other.nvlinks]
    listed = gpu.why("uuid") == NOT_IN_XML and not gpu.nvlinks
    return listed and bool(others) and all(_switched(other) for other in others)


WHOLE = (2, 4, 8, 16)
"""GPUs that are joined on a board or by a bridge: pairs, bridges and boards of four, HGX and OAM
boards of eight, DGX-2. No product joins another number."""
_PCIE = "pcie"
FEWEST = 3
"""A pair and one more GPU are two cards with a bridge, and one without."""


def _check(case: Case) -> Found:
    pairs = case.pairs
    if not any(pair.fast for pair in pairs) or any(gpu.partition for gpu in case.gpus):
        return None
    near = {end for pair in pairs if not _apart(case, pair) for end in pair.ends}
    alone = faulty([gpu for gpu in case.gpus if gpu.address not in near])
    found = []
    for island in case.node.islands:
        sisters = [gpu for gpu in alone if _sister(case, gpu, island)]
        if len(island) >= FEWEST and 0 < len(sisters) == lacking(len(island)):
            found.append(_finding(case, sisters, island))
    return found


def _apart(case: Case, pair: Pair) -> bool:
    """Whether it was read that no link joins the two."""
    if pair.fast:
        return False
    if any(grant.link_type == _PCIE for grant in pair.grants):
        return True
    if pair.code == "?":
        return False
    if case.machine.nccl_topology is not None:
        return all(gpu.why("nvlinks") != BASE_FILE for gpu in (pair.one, pair.other))
    cell = case.matrix.cell(*pair.ends)
    return cell is not None and cell.basis is Basis.READ


def lacking(size: int) -> int:
    """How many GPUs make an island of this size a board; 0 where it is one."""
    return 0 if size in WHOLE else max(next((n for n in WHOLE if n > size), 0) - size, 0)


def _sister(case: Case, gpu: Gpu, island: tuple[str, ...]) -> bool:
    """Whether it could belong to the island: not of another model, not split, not by design."""
    if gpu.mig_enabled or gpu.is_vgpu or gpu.why("uuid") == ONLY_PCI:
        return False
    asked = gpu.uuid is not None and gpu.why("nvlinks") is None
    if gpu.vendor == NVIDIA.id and (gpu.nvlinks or asked):
        return False  # the driver was asked for its links: see nvlink-down and nvlink-missing
    sku = case.sku(gpu)
    if sku is not None and sku.fabric == BoardLinks.NONE:
        return False
    others = [other for other in case.gpus if other.address in island]
    alike = gpu.name is None or {other.name for other in others} <= {gpu.name, None}
    return alike and all(other.vendor == gpu.vendor for other in others)


def _finding(case: Case, found: list[Gpu], island: tuple[str, ...]) -> Finding:
    who = [gpu.address for gpu in found]
    amd = vendors.amd(found)
    # What detects a topology for NCCL has started CUDA on the GPU.
    started = amd or case.machine.nccl_topology is not None
    inside = {pair.code for pair in case.pairs if set(pair.ends) <= set(island)}
    outside = {pair.code for pair in case.pairs if set(pair.ends) & set(who)}
    verb = "is" if len(who) == 1 else "are"
    return OUTSIDE.finding(
        SLOW if started else BROKEN,
        f"{case.names(who)} {verb} outside the {case.words.link} island of its {len(island)} "
        "sisters",
        devices=who,
        evidence=[
            (
                f"relations among {case.names(island)}",
                ", ".join(sorted(inside)),
                case.source,
            ),
            (
                f"relations of {case.names(who)}",
                ", ".join(sorted(outside)),
                case.source,
            ),
        ],
        impact="No product joins "
        f"{len(island)} GPUs, so this is a board of {len(island) + len(who)} of which some are "
        f"off. {case.words.library} finds no common {case.words.link} for all of them: every "
        "collective over the board goes over PCIe or the network"
        + ("." if started else ", or CUDA does not start on them at all."),
        fix=_fix(case, amd=amd),
    )


def _fix(case: Case, *, amd: bool) -> list[Step]:
    if amd:
        return [
            "Read the state of each link. $ amd-smi xgmi",
            "Look for what the driver reported. # dmesg | grep -iE 'xgmi|ras'",
        ]
    return [
        "Read the state of each link. $ nvidia-smi nvlink -s",
        (
            "Read its state in the fabric, and whether MIG is on, which switches its links off. "
            "$ nvidia-smi -q | grep -iE -A4 'fabric|mig mode'"
        ),
        "Look for Xid 74 and SXid messages in the kernel's log. # dmesg | grep -iE 'xid'",
        (
            "End all jobs, reset all GPUs of the board together or restart the node; if it stays, "
            "have the GPU and the baseboard looked at."
        ),
    ]


DOWN = Rule(
    id="nvlink-down",
    family="D12",
    title="NVLinks that are down",
    evidence="state of each NVLink of a GPU, and of its siblings",
    vendor=NVIDIA.id,
    disproof="every link is listed with a rate in `nvidia-smi nvlink -s`, or the same links are "
    "inactive by design (a board with fewer links, no bridge fitted, MIG)",
    sources=("Azure/azhpc-diagnostics#73", "NVIDIA/nccl#557", "NVIDIA/DCGM#198"),
    check=_check_down,
    implied_by=("gpu-lost", "gpu-without-driver"),
)
MISSING = Rule(
    id="nvlink-missing",
    family="D12",
    title="NVLinks that are not there at all",
    evidence="the list of NVLinks of a GPU, and of its siblings",
    vendor=NVIDIA.id,
    disproof="as many links in `nvidia-smi nvlink -s` as the siblings have",
    sources=("NVIDIA/nccl#340", "NVIDIA/open-gpu-kernel-modules#1150"),
    check=_check_missing,
)
OUTSIDE = Rule(
    id="gpu-outside-island",
    family="D12",
    title="GPUs that {any_link} does not connect to GPUs of the same model",
    evidence="relations of all pairs of GPUs",
    disproof="NV# in its row of `nvidia-smi topo -m`, or MIG switched on for it",
    disproof_by=((AMD.id, "XGMI in its row of `rocm-smi --showtopotype`"),),
    sources=("NVIDIA HGX and DGX user guides: boards of 4, 8 and 16", "NVIDIA/nccl#340"),
    check=_check,
    implied_by=(
        "gpu-lost",
        "nvlink-down",
        "nvlink-missing",
        "nvlink-p2p-refused",
        "fabric-state",
        "xgmi-link-down",
    ),
)
RULES = (DOWN, MISSING, OUTSIDE)
