"""Copies of /sys made by hand: what KFD and amdgpu show of machines that nobody here has.

Figures and file formats are those of the kernel (kfd_crat.c, amdgpu_xgmi.c) and of the recordings
in recordings/kfd; the wiring is public: see each function.
"""

from __future__ import annotations

from pathlib import Path

GCD_LINKS = {
    (0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4, (0, 6): 2, (2, 4): 2,
    (0, 2): 1, (1, 3): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1, (5, 7): 1,
}  # fmt: skip
"""xGMI links between the GCDs of four MI250X, by the bandwidths in AMD's ROCm 5.0 release notes
(section "Display XGMI Bandwidth Between Nodes"): 50000 MB/s each."""


class Tree:
    """Writes a KFD topology and amdgpu's files below a folder."""

    def __init__(self, root: Path, cpus: int = 2) -> None:
        self.root = root
        self.topology = root / "sys/class/kfd/kfd/topology"
        self.cpus = cpus
        self.links: dict[int, int] = {}
        self.file(self.topology / "generation_id", "1")
        for cpu in range(cpus):
            self.properties(cpu, cpu_cores_count=64, simd_count=0)
            for other in range(cpus):
                if other != cpu:
                    self.link(cpu, other, type=1, weight=32)

    def file(self, path: Path, text: str) -> None:
        """Write one file as sysfs gives it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def properties(self, node: int, **values: int) -> None:
        """Write the properties of a node."""
        lines = "\n".join(f"{name} {value}" for name, value in values.items())
        self.file(self.topology / f"nodes/{node}/properties", lines)
        self.file(self.topology / f"nodes/{node}/gpu_id", str(1000 + node))

    def gpu(
        self, node: int, address: str, device_id: int, target: int, cpu: int, **more: int
    ) -> None:
        """Write a GPU and its way to a CPU."""
        domain, bus, rest = address.split(":")
        slot, function = rest.split(".")
        place = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)
        values = {
            "cpu_cores_count": 0, "simd_count": 1216, "simd_per_cu": 4, "num_xcc": 8,
            "vendor_id": 0x1002, "device_id": device_id, "gfx_target_version": target,
            "location_id": place, "domain": int(domain, 16), "drm_render_minor": 126 + node,
            "hive_id": 77, "unique_id": 0xABC0 + node, "max_engine_clk_fcompute": 2100,
        }  # fmt: skip
        self.properties(node, **(values | more))
        self.link(node, cpu, type=2, weight=20, min_bandwidth=312, max_bandwidth=64000)
        self.link(cpu, node, type=2, weight=20, min_bandwidth=312, max_bandwidth=64000)

    def xgmi(self, a: int, b: int, links: int, *, hops: int = 1, mbs: int = 50_000) -> None:
        """Join two GPUs both ways."""
        for one, other in ((a, b), (b, a)):
            self.link(
                one, other, type=11, weight=15 * hops,
                min_bandwidth=mbs if links else 0, max_bandwidth=mbs * links, flags=1,
            )  # fmt: skip

    def link(self, node: int, to: int, **values: int) -> None:
        """Write one link of a node."""
        number = self.links.get(node, 0)
        self.links[node] = number + 1
        values = {"node_from": node, "node_to": to, "flags": 3} | values
        lines = "\n".join(f"{name} {value}" for name, value in values.items())
        self.file(self.topology / f"nodes/{node}/io_links/{number}/properties", lines)

    def device(self, address: str, **files: str) -> Path:
        """Write amdgpu's files of one GPU; "__" in a name is a folder."""
        folder = self.root / "sys/bus/pci/devices" / address
        for name, text in files.items():
            self.file(folder / name.replace("__", "/"), text)
        driver = self.root / "sys/bus/pci/drivers/amdgpu" / address
        driver.parent.mkdir(parents=True, exist_ok=True)
        driver.symlink_to(f"../../devices/{address}")
        return folder


MI300X = ("0c", "22", "38", "5c", "9f", "af", "bf", "df")
"""Buses of the node whose `amd-smi topology` is in amdsmi's CHANGELOG of ROCm 6.1."""
GCDS = ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")
"""Buses of the MI250X node in RCCL's tools/topo_expl/models/topo_8p_90a_1.xml."""


def mi300x(root: Path, mbs: int = 50_000, **more: int) -> Tree:
    """Make eight MI300X, every pair joined by one link; 50000 MB/s is what that node's KFD says."""
    tree = Tree(root)
    for place, bus in enumerate(MI300X):
        tree.gpu(2 + place, f"0000:{bus}:00.0", 0x74A1, 90402, cpu=place // 4, **more)
    for a in range(8):
        for b in range(a + 1, 8):
            tree.xgmi(2 + a, 2 + b, 1, mbs=mbs)
    return tree


def mi250x(root: Path) -> Tree:
    """Make eight GCDs of four MI250X, wired as AMD prints it; two hops where no link joins them."""
    tree = Tree(root, cpus=4)
    for place, bus in enumerate(GCDS):
        tree.gpu(
            4 + place, f"0000:{bus}:00.0", 0x7408, 90010, cpu=place // 2, simd_count=440, num_xcc=1
        )
    for a in range(8):
        for b in range(a + 1, 8):
            links = GCD_LINKS.get((a, b), 0)
            tree.xgmi(4 + a, 4 + b, links, hops=1 if links else 2)
    return tree
