"""The NVSwitch fabric: its manager, the registration and health of each GPU, IMEX channels."""

from ....hardware.vendors import NVIDIA
from ....model.copied import may_stand
from ....model.english import first
from ....model.gathered import gathered
from ....model.machine import Gpu, PciKind
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Severity
from ...case import Case
from ...gpu_rule import of_gpus
from ...pairs import in_braces
from ...rule import Found, Rule, Step, faulty, needed
from ...shared.fabric_words import GONE, RESTART

IMEX_TOOL = "nvidia-imex-ctl -N"
MOST_NAMED = 4
_CHANNEL = (
    "Create a channel, which a restart of the host takes away, on every host of the domain. "
    "# mkdir -p /dev/nvidia-caps-imex-channels && mknod /dev/nvidia-caps-imex-channels/channel0 c "
    "$(awk '/nvidia-caps-imex-channels/ {print $1}' /proc/devices) 0"
)


def _manager(case: Case) -> Found:
    state = case.host.fabric_manager
    # In a container or a guest the daemon runs elsewhere; without NVSwitches on this host's own
    # PCI (bridges, rack-scale boards) there is nothing for it to do here.
    if case.in_vm is not False or case.in_container is not False or state is None:
        return None
    needed(case.machine.pci)
    switches = faulty([device for device in case.machine.pci if device.kind == PciKind.NVSWITCH])
    nvidia = faulty([gpu for gpu in case.gpus if gpu.vendor == NVIDIA.id])
    if state == "running":
        return []
    joined = all(gpu.fabric is not None and gpu.fabric.state == UP for gpu in nvidia)
    install = (
        "Install the fabric manager of the driver's version. "
        f"# apt-get install nvidia-fabricmanager{_branch(case)}"
    )
    return MANAGER.finding(
        NOTICE if joined else BROKEN,
        "the fabric manager does not run",
        devices=nvidia,
        evidence=[
            ("fabric manager", state, "/proc/*/comm, /usr/bin"),
            ("NVSwitches", str(len(switches)), "/sys/bus/pci"),
        ],
        impact=(
            "The GPUs have joined the fabric already; after a reset they cannot join again."
            if joined
            else "GPUs behind NVSwitches do not start without it: CUDA fails with error 802."
        ),
        fix=[*([install] if state == "absent" else []), RESTART],
    )


def _branch(case: Case) -> str:
    version = case.machine.software.nvidia_driver if case.machine.software else None
    head = (version or "").split(".")[0]
    return f"-{head}" if may_stand(head, "number") else ""


_UNREADY = ("not started", "in progress")
UP = "completed"
_WELL = "Success"
_NO_TROUBLE = ("not supported", "none")
FABRIC_SOURCE = "NVML nvmlDeviceGetGpuFabricInfoV"
_BITS = {
    "route unhealthy": BROKEN,
    "access timeout recovery": BROKEN,
    "degraded bandwidth": SLOW,
    "route recovery in progress": SLOW,
}
"""Fields of the health mask; traffic over NVLink fails under the broken ones until a reset."""
_SUMMARIES = {"unhealthy": BROKEN, "limited capacity": SLOW}
_RESET_FIRST = (
    "Reset the GPUs while nothing uses them; the fabric then sets their routes again. "
    "# nvidia-smi --gpu-reset"
)
_MNNVL = ("Until then, let NCCL take the network between hosts. $ export NCCL_MNNVL_ENABLE=0",)
_RESET = (
    "If that does not help, reset the GPUs while nothing uses them, or restart the node. "
    "# nvidia-smi --gpu-reset"
)


def _state(case: Case) -> Found:
    known = needed([gpu for gpu in case.gpus if gpu.fabric and gpu.fabric.state is not None])
    bad = faulty([(gpu, word) for gpu in known if (word := _unready(gpu)) is not None])
    manager = case.host.fabric_manager
    ended = {gpu.fabric.status for gpu, _ in bad if gpu.fabric and gpu.fabric.state == UP}
    said = f" ({', '.join(sorted(filter(None, ended)))})" if ended else ""
    return of_gpus(
        STATE,
        case,
        bad,
        BROKEN,
        f"not part of the NVSwitch fabric: {{gpus}}{said}",
        ("fabric", lambda _, word: word, FABRIC_SOURCE),
        last=[] if manager is None else [("fabric manager", manager, "/proc/*/comm")],
        impact="CUDA does not start on them (error 802, system not yet initialized), although "
        f"nvidia-smi looks healthy; {len(known) - len(bad)} of {len(known)} GPUs are ready.",
        fix=[RESTART, *_fifth(case), _RESET],
    )


def _fifth(case: Case) -> list[Step]:
    """NVLink 5 boards have a subnet manager of their own, reached over InfiniBand's modules."""
    if not any(word in (gpu.name or "") for gpu in case.gpus for word in ("B200", "B300")):
        return []
    return [
        "This board's switches are managed through a NIC: see whether nvlsm runs, and load "
        "the modules that it needs. # pgrep -a nvlsm; modprobe -a mlx5_ib ib_umad"
    ]


def _unready(gpu: Gpu) -> str | None:
    """The problem of the registration; None where there is none."""
    fabric = gpu.fabric
    if fabric is None or fabric.status == GONE:
        return None  # the fabric is not at fault: see gpu-lost
    if fabric.state in _UNREADY:
        return fabric.state
    if fabric.state == UP and fabric.status not in (None, _WELL):
        return f"{fabric.state}, with the status {fabric.status}"
    return None


def _partition(case: Case) -> Found:
    joined = [(gpu, gpu.fabric) for gpu in case.gpus if gpu.fabric and gpu.fabric.joined]
    homes = needed({gpu.address: home for gpu, fabric in joined if (home := fabric.partition)})
    groups = gathered((home, gpu) for gpu, home in homes.items())
    faulty(list(groups)[1:])
    refused = any(
        pair.granted is False and not pair.mig and homes[pair.ends[0]] != homes[pair.ends[1]]
        for pair in case.pairs
        if homes.keys() >= set(pair.ends)
    )
    return of_gpus(
        PARTITION,
        case,
        [(gpu, *home) for gpu, home in homes.items()],
        BROKEN if refused else CANNOT_TELL,
        f"the GPUs are in {len(groups)} partitions of the NVSwitch fabric: "
        + in_braces(case, groups.values()),
        (
            "partition",
            lambda _, cluster, clique: f"clique {clique} of cluster {cluster}",
            FABRIC_SOURCE,
        ),
        impact="The fabric carries nothing from one partition to another, and the driver refuses "
        "P2P. NCCL goes by the links inside a host, and stops at start."
        if refused
        else "The fabric carries nothing from one partition to another; yet the driver does not "
        "refuse P2P between them. One of the two is not true: measure, before a job trusts it.",
        fix=["Let whoever manages the fabric put the GPUs of a host into one partition.", _RESET],
    )


def _health(case: Case) -> Found:
    known = needed(
        [
            (gpu, gpu.fabric.health)
            for gpu in case.gpus
            if gpu.fabric is not None
            and any(word != _NO_TROUBLE[0] for _, word in gpu.fabric.health)
        ]
    )
    troubles = faulty([(gpu, *found) for gpu, health in known for found in _trouble(health)])
    broken = any(severity == BROKEN for *_, severity in troubles)
    return of_gpus(
        HEALTH,
        case,
        troubles,
        BROKEN if broken else SLOW,
        "the NVSwitch fabric reports trouble on {gpus}",
        (
            lambda _, what, *rest: f"fabric health of {{gpu}}, {what}",
            lambda _, what, word, severity: word,
            f"{FABRIC_SOURCE}, health mask",
        ),
        impact=(
            "NVLink traffic of these GPUs fails or hangs until they are reset."
            if broken
            else "NVLink of these GPUs carries less than its full rate" + _full_rate(case)
        ),
        fix=[_RESET_FIRST, RESTART, *(_MNNVL if any(map(_spans_hosts, case.gpus)) else ())],
    )


def _trouble(health: tuple[tuple[str, str], ...]) -> list[tuple[str, str, Severity]]:
    """The problems in the mask: field, word and severity."""
    found = [(what, word, harm) for what, word in health if (harm := _harm(what, word)) is not None]
    summary = dict(health).get("summary", "")
    if not found and summary in _SUMMARIES:
        found.append(("summary", summary, _SUMMARIES[summary]))
    return found


def _harm(what: str, word: str) -> Severity | None:
    if what == "incorrect configuration":
        return None if word in _NO_TROUBLE else BROKEN
    return _BITS.get(what) if word == "true" else None


def _full_rate(case: Case) -> str:
    rates = {
        sku.total_gbs for gpu in case.gpus if (sku := case.sku(gpu)) is not None and sku.total_gbs
    }
    return f" ({rates.pop():.0f} GB/s one way)." if len(rates) == 1 else "."


def _imex(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if gpu.fabric is not None and gpu.fabric.cluster_uuid]
    if case.host.imex_channels is None or not known:
        return None
    rack = [gpu for gpu in known if _spans_hosts(gpu)]
    if not rack or case.host.imex_channels:
        return []
    # A container or a job is given a channel only where it asks for one.
    return IMEX.finding(
        NOTICE if case.may_hide_devices else BROKEN,
        "no IMEX channel may be opened, though NVLink here joins several hosts",
        devices=rack,
        evidence=[
            ("channels that may be opened", "0", "/dev/nvidia-caps-imex-channels"),
            (
                f"NVLink cluster of {case.name(rack[0])}",
                "spans hosts (its UUID is not zero)",
                FABRIC_SOURCE,
            ),
        ],
        impact="A job on this host alone is not touched. One over several hosts of this NVLink "
        "domain fails when NCCL starts, or takes the network instead of NVLink.",
        fix=[
            _CHANNEL,
            "Start the IMEX daemon on every host of the domain. # systemctl start nvidia-imex",
            "In a container, hand the channel in (NVIDIA_IMEX_CHANNELS=0).",
            *_MNNVL,
        ],
    )


def _domain(case: Case) -> Found:
    domain = case.host.imex_domain
    if domain is None:
        return None
    here = next((node for node in domain.nodes if node.asked), None)
    unready, apart = domain.unready, domain.apart
    ill = here is not None and here in unready
    if not unready and not apart:
        return []
    # A domain may have places for hosts that are not there: a ComputeDomain has 18.
    severity = BROKEN if ill or apart else NOTICE
    pairs = first(
        [f"{one.label} and {other.label} ({sign})" for one, other, sign in apart], MOST_NAMED, "; "
    )
    if here is not None and ill:
        title = f"the IMEX daemon of this host is not ready ({here.state})"
    elif pairs:
        title = f"hosts of the IMEX domain are ready and not connected: {pairs}"
    else:
        count = f"{len(unready)} of {len(domain.nodes)}"
        names = first([node.label for node in unready], MOST_NAMED)
        title = f"{count} hosts of the IMEX domain do not answer: {names}"
    ready = f"{len(domain.nodes) - len(unready)} of {len(domain.nodes)}"
    return DOMAIN.finding(
        severity,
        title,
        devices=[gpu for gpu in case.gpus if gpu.vendor == NVIDIA.id],
        evidence=[
            ("state of the domain", domain.state or "not told", IMEX_TOOL),
            ("hosts that are ready", ready, IMEX_TOOL),
            *([("not connected", pairs, IMEX_TOOL)] if pairs else []),
        ],
        impact="A job over hosts that are not connected fails when NCCL starts "
        '("MNNVL is available but not working"); one over the others is not touched.',
        fix=[
            "Start the daemon where it does not answer, and see /var/log/nvidia-imex.log there. "
            "# systemctl restart nvidia-imex",
            "Hosts of another version (!V!) or another list of nodes (!M!) do not connect: give "
            "all the same driver and the same /etc/nvidia-imex/nodes_config.cfg.",
            *_MNNVL,
        ],
    )


def _spans_hosts(gpu: Gpu) -> bool:
    # A single HGX board has a cluster of zeros: NCCL's mnnvl.cc takes the same sign.
    fabric = gpu.fabric
    return (
        fabric is not None and fabric.state == UP and bool((fabric.cluster_uuid or "").strip("0-"))
    )


MANAGER = Rule(
    id="fabric-manager",
    family="D03",
    title="a fabric manager that does not run on bare metal with NVSwitches",
    evidence="the process nv-fabricmanager, NVSwitches on PCI, no container and no hypervisor",
    vendor=NVIDIA.id,
    disproof="`systemctl is-active nvidia-fabricmanager` that says active",
    sources=("NVIDIA Fabric Manager user guide", "huggingface_hub#4128", "NVIDIA/gpu-operator#610"),
    check=_manager,
)
STATE = Rule(
    id="fabric-state",
    family="D03",
    title="GPUs that have not joined the NVSwitch fabric",
    evidence="state and status of each GPU's registration with the fabric",
    vendor=NVIDIA.id,
    disproof='Fabric "State: Completed, Status: Success" in `nvidia-smi -q`, or a partition of a '
    "shared NVSwitch that nobody has activated yet",
    sources=("pytorch/pytorch#35710", "Azure/azhpc-images#506", "nvml.h NVML_GPU_FABRIC_STATE_*"),
    check=_state,
    implied_by=("fabric-manager", "gpu-reset-required"),
)
PARTITION = Rule(
    id="fabric-partition",
    family="D03",
    title="GPUs of one node in different partitions of the NVSwitch fabric",
    evidence="cluster and clique of each GPU's registration with the fabric",
    vendor=NVIDIA.id,
    disproof="one ClusterUUID and one CliqueId for all GPUs in `nvidia-smi -q`, or a partition for "
    "some GPUs of this node that somebody made on purpose",
    sources=("nvml.h nvmlGpuFabricInfoV_t", "NCCL src/mnnvl.cc", "NCCL src/graph/paths.cc"),
    check=_partition,
)
HEALTH = Rule(
    id="fabric-health",
    family="D19",
    title="trouble in the health mask of the NVSwitch fabric",
    evidence="the health mask of each GPU's registration, its two-bit fields decoded",
    vendor=NVIDIA.id,
    disproof="a mask whose fields all say false or not supported: 0xaa is healthy, and so is 0",
    sources=("nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*", "NVIDIA/nccl#2186"),
    check=_health,
)
IMEX = Rule(
    id="imex-channel",
    family="D19",
    title="no IMEX channel on a board whose NVLink spans hosts",
    evidence="the channels that may be opened, and the UUID of the NVLink cluster",
    vendor=NVIDIA.id,
    disproof="a channel in /dev/nvidia-caps-imex-channels that this user can open",
    sources=("NVIDIA/nccl#1925", "NVIDIA/nccl#2186", "NCCL src/mnnvl.cc"),
    check=_imex,
)
DOMAIN = Rule(
    id="imex-domain",
    family="D19",
    title="hosts of the IMEX domain that are not ready or not connected",
    evidence="the hosts and the table of connections that `nvidia-imex-ctl -N` prints",
    vendor=NVIDIA.id,
    disproof="`nvidia-imex-ctl -N` that says READY for each host and C for every two",
    sources=("NVIDIA IMEX guide, cmdservice", "NVIDIA/k8s-dra-driver-gpu", "NCCL src/mnnvl.cc"),
    check=_domain,
)
RULES = (MANAGER, STATE, PARTITION, HEALTH, IMEX, DOMAIN)
