"""A demo's answers for the source `nvml`: NVML's function names, invented identities."""

from __future__ import annotations

from typing import Any

from ...hardware.vendors import NVIDIA
from ...model.record import by_address
from .pci_tree import GPU, NVSWITCH, Function, chain
from .shape import DemoShape

NOT_SUPPORTED = {"error": "NVMLError_NotSupported: Not Supported"}
NOT_A_LINK = {"error": "NVMLError_InvalidArgument: Invalid Argument"}
HIDDEN = {
    "busIdLegacy": "FFFFFFF:FF:FF.0",
    "domain": 0xFFFFFFFF,
    "bus": 0xFF,
    "device": 0xFF,
    "pciDeviceId": 0xFFFFFFFF,
    "pciSubSystemId": 0,
    "busId": "FFFFFFFF:FF:FF.0",
}
"""What a driver says of the other end of a link that the host does not see."""
HIDDEN_MIB = 625
"""Memory that the driver reserves for itself, MiB; an idle H200 shows 615."""
_ANCESTORS = {"single": 10, "multiple": 20, "hostbridge": 30, "node": 40, "system": 50}


def answer(shape: DemoShape, functions: tuple[Function, ...]) -> dict[str, Any]:
    """What NVML would say about a demo's GPUs; {} where the GPUs are not NVIDIA's."""
    if shape.gpu.vendor != NVIDIA.id:
        return {}
    gpus = [function for function in functions if function.kind is GPU]
    wiring = _Wiring(shape, functions)
    common = _common(shape)
    return {
        "demo": True,
        "system": {
            "nvmlSystemGetDriverVersion": shape.driver,
            "nvmlSystemGetNVMLVersion": f"{shape.cuda // 1000}.{shape.driver}",
            "nvmlSystemGetCudaDriverVersion_v2": shape.cuda,
            "nvmlSystemGetConfComputeState": NOT_SUPPORTED,
            "nvmlDeviceGetCount": len(gpus),
        },
        "devices": [common | _device(shape, gpu) | wiring.of(gpu) for gpu in gpus],
    }


def uuid(gpu: Function) -> str:
    """Invent a UUID that cannot be mistaken for a real one."""
    return f"GPU-de300000-0000-4000-8000-{gpu.number:012d}"


def _common(shape: DemoShape) -> dict[str, Any]:
    model = shape.gpu
    major, minor = model.compute_capability.split(".")
    watts = model.power_watts * 1000
    return {
        "nvmlDeviceGetName": model.name,
        "nvmlDeviceGetBrand": model.brand,
        "nvmlDeviceGetArchitecture": model.architecture,
        "nvmlDeviceGetCudaComputeCapability": [int(major), int(minor)],
        "nvmlDeviceGetNumGpuCores": model.cores,
        "nvmlDeviceGetMemoryBusWidth": model.memory_bus_bits,
        "nvmlDeviceGetVbiosVersion": model.vbios,
        "nvmlDeviceGetBoardPartNumber": model.board_part_number,
        "nvmlDeviceGetMaxPcieLinkGeneration": model.pcie_gen,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": model.pcie_gen,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetEnforcedPowerLimit": watts,
        "nvmlDeviceGetPowerManagementDefaultLimit": watts,
        "nvmlDeviceGetPowerManagementLimitConstraints": [model.power_min_watts * 1000, watts],
        "nvmlDeviceGetVirtualizationMode": 0,
        "nvmlDeviceGetGspFirmwareVersion": shape.driver,
        "nvmlDeviceGetNumaNodeId": NOT_SUPPORTED,
        "nvmlDeviceGetC2cModeInfoV": {"isC2cEnabled": 1} if shape.c2c else NOT_SUPPORTED,
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetMigMode": [0, 0] if model.architecture in (7, 9, 10) else NOT_SUPPORTED,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlDeviceGetMultiGpuBoard": 0,
        "maxclock0": model.clock_graphics_mhz,
        "maxclock1": model.clock_graphics_mhz,
        "maxclock2": model.clock_memory_mhz,
        "maxclock3": model.clock_video_mhz,
        "threshold0": model.temperature_shutdown_c,
        "threshold1": model.temperature_slowdown_c,
        "threshold2": model.temperature_memory_max_c,
        "threshold3": model.temperature_slowdown_c - 2,
        "nvmlDeviceGetMemoryInfo": {
            "total": model.memory_bytes,
            "free": model.memory_bytes - HIDDEN_MIB * 2**20,
            "used": HIDDEN_MIB * 2**20,
        },
        "nvmlDeviceGetBAR1MemoryInfo": {
            "bar1Total": model.bar1_bytes,
            "bar1Free": model.bar1_bytes - 2**20,
            "bar1Used": 2**20,
        },
        "mig": [],
    }


def _device(shape: DemoShape, gpu: Function) -> dict[str, Any]:
    pci = pci_info(gpu)
    modules = shape.gpu.modules
    return {
        "nvmlDeviceGetIndex": gpu.number,
        "nvmlDeviceGetMinorNumber": gpu.number,
        "nvmlDeviceGetUUID": uuid(gpu),
        "nvmlDeviceGetSerial": f"DEMO{gpu.number:09d}",
        "nvmlDeviceGetBoardId": int(gpu.bus[-2:], 16) << 8,
        "nvmlDeviceGetModuleId": modules[gpu.number] if modules else NOT_SUPPORTED,
        "nvmlDeviceGetPciInfo": pci,
        "nvmlDeviceGetPciInfo_v3": pci,
        "cpu_affinity": _words(shape.node.numa_cpus[gpu.numa]),
        "mem_affinity": _words(str(gpu.numa)),
    }


def _c2c(shape: DemoShape) -> dict[str, Any]:
    """The fields of the links to the CPU."""
    if shape.c2c is None:
        return {"NVML_FI_DEV_C2C_LINK_COUNT": {"ret": 3}}
    return {
        "NVML_FI_DEV_C2C_LINK_COUNT": {"value": shape.c2c.links},
        "NVML_FI_DEV_C2C_LINK_GET_MAX_BW": {"value": shape.c2c.mbps},
    }


def pci_info(function: Function) -> dict[str, Any]:
    """NVML's structure for a PCI address."""
    domain, bus, rest = function.address.split(":")
    vendor, device = function.pci_id.split(":")
    sub_vendor, sub_device = function.subsystem_id.split(":")
    return {
        "busIdLegacy": function.address.upper(),
        "domain": int(domain, 16),
        "bus": int(bus, 16),
        "device": int(rest.split(".")[0], 16),
        "pciDeviceId": int(device + vendor, 16),
        "pciSubSystemId": int(sub_device + sub_vendor, 16),
        "busId": f"0000{function.address.upper()}",
    }


def cpu_numbers(listing: str) -> list[int]:
    """The numbers in a CPU list: "0-2,8" -> [0, 1, 2, 8]."""
    numbers: list[int] = []
    for piece in listing.split(","):
        first, _, last = piece.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _words(listing: str) -> list[int]:
    mask = sum(1 << number for number in cpu_numbers(listing))
    words = max(4, -(-mask.bit_length() // 64))
    return [(mask >> (64 * word)) & (2**64 - 1) for word in range(words)]


class _Wiring:
    """Links, pairs and fabric of each GPU."""

    def __init__(self, shape: DemoShape, functions: tuple[Function, ...]) -> None:
        self.shape = shape
        self.gpus = [function for function in functions if function.kind is GPU]
        self.switches = [function for function in functions if function.kind is NVSWITCH]
        known = by_address(functions)
        self.chains = {gpu.number: chain(gpu, known) for gpu in self.gpus}

    def of(self, gpu: Function) -> dict[str, Any]:
        links = self._links(gpu)
        count = len(links)
        return {
            "links": [*links, {"link": count, **NOT_A_LINK}],
            "pairs": [self._pair(gpu, peer) for peer in self.gpus if peer is not gpu],
            "fabric": self._fabric(),
            "fields": {
                "NVML_FI_DEV_NVLINK_LINK_COUNT": {"value": count} if count else {"ret": 3},
                **_c2c(self.shape),
            },
        }

    def _remotes(self, gpu: Function) -> list[tuple[Function | None, int]]:
        """Where each link of a GPU ends, None out of sight, and the number of the link there."""
        nvlink = self.shape.nvlink
        if nvlink is None:
            return []
        ends: list[tuple[Function | None, int]] = []
        if nvlink.per_switch and not self.switches:
            return [(None, number) for number in range(sum(nvlink.per_switch))]
        if nvlink.per_switch:
            for switch, links in zip(self.switches, nvlink.per_switch, strict=True):
                ends.extend((switch, gpu.number * links + number) for number in range(links))
            return ends
        mesh = nvlink.mesh
        for peer, links in enumerate(mesh[gpu.number]):
            before = sum(mesh[peer][: gpu.number])
            ends.extend((self.gpus[peer], before + number) for number in range(links))
        return ends

    def _links(self, gpu: Function) -> list[dict[str, Any]]:
        nvlink = self.shape.nvlink
        fault = self.shape.fault_of(gpu.number)
        down = fault.links_down if fault else ()
        links: list[dict[str, Any]] = []
        for number, (end, remote_link) in enumerate(self._remotes(gpu)):
            if nvlink is None:
                break
            if number in down:
                links.append(
                    {"link": number, "state": 0, "version": nvlink.version,
                     "remote_pci": NOT_SUPPORTED, "remote_type": NOT_SUPPORTED,
                     "cap0": 1, "fields": {"NVML_FI_DEV_NVLINK_GET_STATE": {"value": 0}}}
                )  # fmt: skip
                continue
            links.append(
                {"link": number, "state": 1, "version": nvlink.version,
                 "remote_pci": HIDDEN if end is None else pci_info(end),
                 "remote_type": 2 if end is None or end.kind is NVSWITCH else 0,
                 "cap0": 1,
                 "fields": {
                     "NVML_FI_DEV_NVLINK_GET_STATE": {"value": 1},
                     "NVML_FI_DEV_NVLINK_GET_SPEED": {"value": nvlink.raw_mbps},
                     "NVML_FI_DEV_NVLINK_GET_VERSION": {"value": nvlink.version},
                     "NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID": {"value": remote_link},
                 }}
            )  # fmt: skip
        return links

    def _pair(self, gpu: Function, peer: Function) -> dict[str, Any]:
        joined = self._joined(gpu, peer)
        pcie_only = self.shape.nvlink is None
        # V100 boards refuse P2P across sockets where no NVLink joins the two.
        granted = 0 if joined or pcie_only else 3
        return {
            "peer": peer.number,
            "ancestor": _ANCESTORS[self._ancestor(gpu, peer)],
            "p2p": {
                "0": granted,
                "1": granted,
                "2": 0 if joined else 5,
                "3": 0 if joined else 5,
                "4": 0 if pcie_only else 5,
            },
        }

    def _joined(self, gpu: Function, peer: Function) -> bool:
        nvlink = self.shape.nvlink
        if nvlink is None:
            return False
        return bool(nvlink.per_switch) or nvlink.mesh[gpu.number][peer.number] > 0

    def _ancestor(self, gpu: Function, peer: Function) -> str:
        mine, theirs = self.chains[gpu.number], self.chains[peer.number]
        shared = [name for name in mine if name in theirs]
        if not shared:
            return "node" if gpu.numa == peer.numa else "system"
        if shared[0].startswith("pci"):
            return "hostbridge"
        # One switch = the port above each device and the upstream port that joins them.
        return (
            "single" if mine.index(shared[0]) <= 1 and theirs.index(shared[0]) <= 1 else "multiple"
        )

    def _fabric(self) -> dict[str, Any]:
        domain = self.shape.domain
        if domain is not None:
            cluster = [0] * 15 + [domain.cluster]
            state = {"status": 0, "cliqueId": domain.clique, "state": 3, "healthMask": 0}
            return {"clusterUuid": cluster, **state}
        # Registration with a fabric exists from Hopper on.
        if not self.switches or self.shape.gpu.architecture < 9:
            return NOT_SUPPORTED
        return {"clusterUuid": [0] * 16, "status": 0, "cliqueId": 0, "state": 3, "healthMask": 0}
