"""Which NVIDIA GPUs this process may use, according to their device nodes."""

import re

from ..model.machine import Gpu
from ..model.record import by_address
from ..model.surroundings import Host
from ..sources.linux.device_nodes import KEPT_BACK, NO_PERMISSION

GIVEN = "given"
"""The node may be opened: the driver's library should describe this GPU."""
KEPT = "kept back"
"""The device cgroup of this process forbids it."""
DENIED = "no permission"
"""The node's permissions forbid it to this user."""
NO_NODE = "no node"
"""It is not in this process's /dev."""
_NUMBERED = re.compile(r"/dev/nvidia\d{1,4}\b")


def minors(host: Host) -> dict[str, int]:
    """Number of the device node of each GPU that the module took, by PCI address."""
    taken = by_address(host.nvidia_gpus or ())
    return {address: gpu.minor for address, gpu in taken.items() if gpu.minor is not None}


def access(host: Host, gpu: Gpu) -> str | None:
    """One of the words above; None where the GPU's node is not known or nobody looked."""
    minor = minors(host).get(gpu.address)
    if minor is None or host.device_nodes is None:
        return None
    node = f"/dev/nvidia{minor}"
    words = {node: GIVEN, node + NO_PERMISSION: DENIED, node + KEPT_BACK: KEPT}
    return next(
        (words[device_node] for device_node in host.device_nodes if device_node in words), NO_NODE
    )


def keeps_back(host: Host) -> bool:
    """Whether a device cgroup forbids this process to use a GPU."""
    return any(
        node.endswith(KEPT_BACK) and _NUMBERED.match(node) for node in host.device_nodes or ()
    )


def excluded(host: Host, gpu: Gpu) -> bool:
    """Whether a setting keeps the module from driving this GPU (NVreg_ExcludedGpus)."""
    return any(
        nvidia_gpu.address == gpu.address and nvidia_gpu.excluded
        for nvidia_gpu in host.nvidia_gpus or ()
    )
