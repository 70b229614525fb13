"""Which way UCX takes from GPU to GPU, as for a KV cache, as far as its rules prove it.

Read from UCX 1.22: src/ucp/core/ucp_context.c (transports, devices), src/uct/ib/base/ib_md.c
(GPUDirect), src/uct/cuda/cuda_ipc/cuda_ipc_iface.c, and held against what ucx_info of 1.13.1 and
1.22.0 print, and between two H200 against UCX_PROTO_INFO=y of 1.22.0, which prints what a transfer
really takes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ...hardware.vendors import AMD, NVIDIA
from ...model.english import listing
from ...model.machine import Gpu, Machine
from ...model.page import Section
from ...model.snapshot import NodeSnapshot
from ...model.surroundings import Host, RdmaDevice, RdmaKind, RdmaPort
from ...nccl.xml.detect import DMABUF_KERNEL, PEERMEM
from ...wiring.codes import Relations
from ...wiring.relations import LEGEND
from ..catalogue.catalogue import Flag
from ..values.fits import whole

TITLE = "From GPU to GPU over UCX, as for a KV cache"
SUBJECTS = ("transport", "network", "gdr")
ALIASES = {
    "mm": "posix sysv xpmem",
    "sm": "posix sysv xpmem knem cma",
    "shm": "posix sysv xpmem knem cma",
    "ib": "rc_verbs ud_verbs rc_mlx5 ud_mlx5 dc_mlx5 gga_mlx5 srd rc_gda",
    "ud_v": "ud_verbs",
    "ud_x": "ud_mlx5",
    "ud": "ud_mlx5 ud_verbs",
    "rc_v": "rc_verbs",
    "rc_x": "rc_mlx5",
    "rc": "rc_mlx5 rc_verbs",
    "dc": "dc_mlx5",
    "dc_x": "dc_mlx5",
    "gga": "gga_mlx5",
    "ugni": "ugni_smsg ugni_rdma",
    "cuda": "cuda_copy cuda_ipc gdr_copy",
    "rocm": "rocm_copy rocm_ipc rocm_gdr",
    "ze": "ze_copy ze_ipc ze_gdr",
    "gaudi": "gaudi_gdr",
}
"""Families of transports (ucp_context.c:ucp_tl_aliases)."""
SHARED = frozenset(ALIASES["shm"].split())
RDMA = frozenset(ALIASES["ib"].split())
TRANSPORTS = frozenset(" ".join(ALIASES.values()).split()) | {"tcp", "self"}
_RANGE = re.compile(r"(.*)\[(\d{1,3})-(\d{1,3})\](.*)")
SHOWS = (
    "UCX_PROTO_INFO=y prints what each size really takes. ucx_info -d lists what the UCX of the "
    "program has: that of the package libucx of PyPI has no RDMA."
)


def allowed(text: str | None) -> frozenset[str]:
    """The transports that UCX_TLS leaves; None: it is not set."""
    if text is None:
        return TRANSPORTS
    words = text.removeprefix("^").split(",")
    if "all" in words:
        return TRANSPORTS
    named: set[str] = set()
    for word in words:
        # A backslash says that it is no family; :aux is a transport that only helps another.
        own = word.removeprefix("\\")
        named.update([own] if own != word else ALIASES.get(own, own).split())
    return TRANSPORTS - named if text.startswith("^") else TRANSPORTS & named


def devices(text: str | None, names: list[str]) -> list[str]:
    """The network devices that UCX_NET_DEVICES leaves of these."""
    if text is None or text == "all":
        return names
    words: list[str] = []
    for word in text.split(","):
        if (match := _RANGE.fullmatch(word)) is None:
            words.append(word)
            continue
        head, first, last, tail = match.groups()
        words += [f"{head}{number}{tail}" for number in range(int(first), int(last) + 1)]
    return whole(",".join(words), names)


def concerns(flag: Flag) -> bool:
    """Whether a variable bears on the way that UCX takes."""
    return flag.group in ("ucx", "nixl") and flag.subject in SUBJECTS


def gpu_to_gpu(snapshot: NodeSnapshot, values: Mapping[str, str]) -> Section:
    """What UCX takes to another host and inside this one; `values`: the variables that are set."""
    machine = snapshot.machine
    vendors = {gpu.vendor for gpu in machine.gpus}
    if vendors - {NVIDIA.id, AMD.id} or len(vendors) != 1:
        return Section(title=TITLE)
    return Section(title=TITLE, bullets=tuple(_sentences(machine, values)))


def _sentences(machine: Machine, values: Mapping[str, str]) -> Iterator[str]:
    left = allowed(values.get("UCX_TLS"))
    maker = "rocm" if machine.gpus[0].vendor == AMD.id else "cuda"
    if f"{maker}_copy" not in left:
        yield (
            f"UCX_TLS={values['UCX_TLS']} leaves {maker}_copy out: UCX takes GPU memory for host "
            "memory, so that a transfer of it fails or crashes the program."
        )
        return
    yield f"To another host: {_outward(machine, left, values)}"
    yield f"Inside this host: {_inward(machine, left, maker, values)}"
    yield SHOWS


def _outward(machine: Machine, left: frozenset[str], values: Mapping[str, str]) -> str:
    """The way to another host, a sentence or two."""
    filtered = values.get("UCX_NET_DEVICES")
    ports = _ports(machine)
    if chosen := _chosen(machine, left, values):
        rails = (
            values.get("UCX_MAX_RNDV_RAILS", "2"),
            values.get("UCX_MAX_RMA_RAILS", "1, 2 in NIXL"),
        )
        return (
            f"RDMA{_efa(chosen)}. {_nearest(machine, chosen)} A large message takes up to "
            f"{rails[0]} ports, a put or get {rails[1]}. {_gpudirect(machine, values)}"
        )
    if not machine.rdma and not machine.interfaces:
        return "not known, as neither RDMA devices nor interfaces were read here."
    inner = [one.name for one in machine.interfaces if one.up is not False and one.name != "lo"]
    over = devices(filtered, inner) if "tcp" in left else []
    if not over:
        return (
            "no way is left: UCX_TLS and UCX_NET_DEVICES leave neither RDMA nor TCP over an "
            "interface of this node."
        )
    why = "no RDMA device with an active port is here"
    if ports:
        why = "UCX_TLS or UCX_NET_DEVICES leaves the RDMA devices out"
    return (
        f"TCP over {listing(over, 4)}, as {why}. GPU memory goes through host memory on both "
        "sides, far below what RDMA gives."
    )


def _ports(machine: Machine) -> dict[str, tuple[RdmaDevice, RdmaPort]]:
    """The ports of RDMA devices that are active, or may be."""
    return {f"{nic.name}:{port.port}": (nic, port) for nic in machine.rdma
            for port in nic.ports if port.active or port.state is None}  # fmt: skip


def _chosen(
    machine: Machine, left: frozenset[str], values: Mapping[str, str]
) -> dict[str, tuple[RdmaDevice, RdmaPort]]:
    """Those that the variables leave."""
    ports = _ports(machine) if left & RDMA else {}
    named = devices(values.get("UCX_NET_DEVICES"), list(ports))
    return {name: ports[name] for name in named}


def _efa(ports: Mapping[str, tuple[RdmaDevice, RdmaPort]]) -> str:
    kinds = {nic.kind for nic, _ in ports.values()}
    return (
        " by srd, where UCX is 1.20 or newer and built for EFA" if kinds == {RdmaKind.EFA} else ""
    )


def _nearest(machine: Machine, ports: Mapping[str, tuple[RdmaDevice, RdmaPort]]) -> str:
    """Which of these ports are nearest to each GPU, a sentence."""
    rates = {port.rate_gbit for _, port in ports.values()}
    if len(ports) == 1:
        return f"{next(iter(ports))} is the only port that is left."
    if len(rates) > 1 or not all(nic.address for nic, _ in ports.values()):
        return f"Which of {listing(list(ports), 4)} is not known, as their rates or places differ."
    relations = Relations(machine)
    near: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for gpu in machine.gpus:
        far = {name: _distance(relations, gpu, nic) for name, (nic, _) in ports.items()}
        best = min(far.values())
        near[tuple(name for name in ports if far[name] == best)].append(f"GPU{gpu.number}")
    if len(near) == 1:
        return f"{listing(next(iter(near)), 4)} are equally near to all GPUs: which is not known."
    told = "; ".join(
        f"{listing(gpus, 8)}: {' or '.join(names[:4])}" for names, gpus in near.items()
    )
    return f"UCX prefers the port nearest to the GPU ({told})."


def _distance(relations: Relations, gpu: Gpu, nic: RdmaDevice) -> int:
    """How far a NIC is from a GPU: 0 is nearest."""
    code = relations.between(gpu.address, nic.address or "").code
    return len(LEGEND) - LEGEND.index(code) if code in LEGEND else len(LEGEND)


def _gpudirect(machine: Machine, values: Mapping[str, str]) -> str:
    """Whether the NIC reaches GPU memory itself, a sentence."""
    if values.get("UCX_IB_GPU_DIRECT_RDMA", "").lower() in ("n", "no", "off", "0"):
        return "UCX_IB_GPU_DIRECT_RDMA has it go through host memory."
    if machine.gpus[0].vendor == AMD.id:
        return "UCX takes it that the NIC reaches GPU memory itself, as amdgpu is here (/dev/kfd)."
    host = machine.host
    if host is None or host.why("modules") is not None:
        return "Whether the NIC reaches GPU memory itself is not known: the modules were not read."
    peers = host.memory_peers or ()
    if "nv_mem" in peers or PEERMEM & {module.name for module in host.modules}:
        return "The NIC reaches GPU memory itself, by nvidia-peermem."
    if _dmabuf(host):
        return (
            "The NIC reaches GPU memory itself by DMA-BUF where UCX is 1.14 or newer: the kernel "
            "and NVIDIA's open module have it, the NIC's driver was not asked."
        )
    return (
        "It goes through host memory: nvidia-peermem is not loaded, and DMA-BUF needs Linux 5.12 "
        "and NVIDIA's open kernel module."
    )


def _dmabuf(host: Host) -> bool:
    numbers = [int(number) for number in re.findall(r"\d{1,5}", host.kernel or "")[:2]]
    return host.nvidia_module == "open" and tuple(numbers) >= DMABUF_KERNEL


def _inward(machine: Machine, left: frozenset[str], maker: str, values: Mapping[str, str]) -> str:
    """The way inside this host, a sentence or two."""
    if len(machine.gpus) < 2:
        return "there is one GPU."
    ipc = f"{maker}_ipc"
    if ipc not in left:
        read = bool(machine.rdma or machine.interfaces)
        if not read or _chosen(machine, left, values):
            return (
                f"not directly, as UCX_TLS leaves {ipc} out; whether it takes the NIC or host "
                "memory is not known."
            )
        between = "shared memory" if left & SHARED else "TCP"
        return (
            f"through host memory, as UCX_TLS leaves {ipc} out and no RDMA device is left: "
            f"{maker}_copy at both ends and {between} between them. On a host with two H200 that "
            "moved 9 GB/s where cuda_ipc moved 365."
        )
    words = {word for pair in machine.pairs for word in (pair.p2p_read, pair.p2p_write)}
    if maker == "rocm":
        return f"{ipc}, straight from GPU to GPU."
    if words == {"ok"}:
        return (
            f"{ipc}, straight from GPU to GPU, as the driver grants P2P to all pairs; not between "
            "containers whose processes do not see each other (PID namespaces). Whether memory of "
            "the program's allocator can be shared is not known here."
        )
    if not words - {None}:
        return f"{ipc} where the driver grants P2P, which was not asked here."
    return f"{ipc} where the driver grants P2P; which way the other pairs take is not known."
