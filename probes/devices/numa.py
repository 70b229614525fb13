"""NUMA nodes: their CPUs, the node of a GPU, and the node of a page.

Work on the CPUs of a node runs in its own thread. The affinity ends with the thread, so there is
nothing to restore.
"""

import contextlib
import ctypes
import os
import platform
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Optional, TypeVar

_NODES = Path("/sys/devices/system/node")
_DEVICES = Path("/sys/bus/pci/devices")
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
"""Numbers of the system call get_mempolicy(2)."""
_NODE_OF_ADDRESS = 1 | 2  # MPOL_F_NODE | MPOL_F_ADDR

Answer = TypeVar("Answer")


def node_of(pci_address: Optional[str], devices: Path = _DEVICES) -> Optional[int]:
    """The NUMA node of a device; None where the firmware does not say (-1)."""
    with contextlib.suppress(OSError, ValueError):
        node = int((devices / str(pci_address) / "numa_node").read_text())
        return node if node >= 0 else None
    return None


def nodes(folder: Path = _NODES) -> "dict[int, frozenset[int]]":
    """Node -> its CPUs that this process may use; nodes without any are left out."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    found = {}
    for path in folder.glob("node[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            cpus = frozenset(cpu_list((path / "cpulist").read_text()) & allowed)
            if cpus:
                found[int(path.name[len("node") :])] = cpus
    return dict(sorted(found.items()))


def cpu_list(text: str) -> "set[int]":
    """The numbers in a list as the kernel writes it: 0-3,8,10-11. ValueError for anything else."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def on_cpus(cpus: Optional[Collection[int]], work: Callable[[], Answer]) -> Answer:
    """Run `work` on these CPUs and return or raise its result; None: in this thread."""
    if cpus is None:
        return work()
    answers: list[Any] = []
    errors: list[BaseException] = []

    def bound() -> None:
        try:
            os.sched_setaffinity(0, cpus)
            answers.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    thread = threading.Thread(target=bound, name="numa", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    answer: Answer = answers[0]
    return answer


def page_node(address: int) -> Optional[int]:
    """The node of the page at this address; None where the kernel does not say."""
    number = _GET_MEMPOLICY.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return None
    node = ctypes.c_int(-1)
    code = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(number), ctypes.byref(node), None, ctypes.c_ulong(0),
        ctypes.c_void_p(address), ctypes.c_ulong(_NODE_OF_ADDRESS),
    )  # fmt: skip
    return node.value if code == 0 and node.value >= 0 else None
