"""Which lines without the library's head say something: patterns, and how to skip the rest fast.

A line counts when it speaks of the library, of a GPU or of their drivers and a pattern matches it.
Both need texts that are looked for in many lines at once.
"""

import re
from collections.abc import Iterable
from functools import cache

from ...model.literals import further, literals
from ...model.no_output import is_no_output
from ...recorded.sought import Sought, Vocabulary

VIA = (b" via P2P/", b" via SHM/", b" via NET/", b" via COLLNET/")
"""What lines about connections hold."""
ABOUT = (
    b"CCL", b"nccl", b"CUDA", b"Cuda", b"cuda", b"HIP", b"hipE", b"hipI", b"NVRM", b"NVML",
    b"nvml", b"NVLink", b"GPU", b"NET/", b"ibv_", b"IBV_", b"mlx", b"c10d", b"ProcessGroup",
    b"Last error:", b"torch", b"[rank", b"oom", b"Killed process", b"Signal ", b"signal ",
    b"srun: ", b"slurmstepd", b"system not yet", b"ROCm", b"amdgpu", b".cc:", b".cu:", b".h:",
    b"/dev/shm", b" in comm 0x", b"[INFO] ", b"] INFO NET", b"] INFO Ring", b"] INFO Channel",
    b"] INFO Tree", b"] INFO Using", b"] INFO comm", b"DataLoader worker", b"bus error", b"Imex",
    b"NVSwitch", b"loo connect", b"client socket", b"Static function", b"peermem", b"peer_mem",
    b"locked memory", b"peer access", b"nvidia", b"NVIDIA", b"SHMEM", b"nvshmem", b"UCX",
    b"PCIe Bus Error", b"AER:", b"kfd", b"ROCk", b"HSA_", b"HW Exception", b"No devices",
    b"placement group", b"node types", b"libfabric", b"OFI ", b"hip", b"[[gpu", b"MPS ",
    b"amd.com/", b"DMAR:", b"IO_PAGE_FAULT", b"[Hardware Error]", b"EDAC", b"blocked for more",
    b"machine check", b"cannot open shared object", b"mm_iface",
    b"memory pressure", b"memory usage threshold", b"Worker exit type", b"OutOfMemoryError",
    b"soft lockup", b"detected stall", b"monitoredBarrier", b"CollectiveFingerPrint", b" QP ",
    b"ORTE", b"PRTE", b"PMIX", b"slots available", b"btl_tcp", b"Open MPI", b"mpirun", b"prterun",
    b"TCPStore", b"process group", b"prior iteration", b"elastic", b"cache blocks", b"ngine core",
    b"WorkerProc", b"EngineDead", b"broadcast block", b"llreduce", b"mem-fraction", b"Barrier",
    b"heartbeats", b"subset of ranks", b"abricmanager", b"MIOpen", b"rocBLAS",
    b"rocblas", b"SocketImpl", b"clients joined", b"rdma", b"RDMA", b"getaddrinfo", b"CDI ",
    b"DUE TO ", b" MR", b"cuDNN", b"CUDNN", b"HCA", b"MIG ",
    b" mtu ", b"bar_overlap", b"BAR ", b"xla", b"endezvous",
    b"wr_id", b"retry counter", b"Rome preset", b"Runtime API", b"Return value",
    b"kernel source tree", b"infoROM", b"waitForInput", b"RuntimeError: ", b"divisible by",
    b"gloo/", b"find address for", b"resolve hostname to", b"store based", b"dkms", b"DKMS",
    b"Error: ", b"Assertion `", b"bitsandbytes", b"symbol: _Z", b"libdevice", b"ptxas",
    b"machine only has", b"MEMBER: ", b"command not found", b"not installed", b"Version mismatch",
    b"Assertion failed: ", b"Assertion error ", b"fatal error: ", b"cannot find -l", b"hostfile",
    b"Failed to find C", b"ancdata", b"error: unrecognized", b"already in use",
    b"not aligned with the quantized", b"out of resource", b"bootstrapping phase", b"EngineCore",
    b"Host key", b"ssh: ", b"ssh exited", b"Permission denied (p", b"core dumped", b"CuDNN",
    b"[TRT]",
    b"SemLock", b"No space left", b"shared memory",
    b"DPC:", b"Fatal Python", b"Failed status", b"vllm", b"vLLM", b"sglang", b"joining collective",
    b"issing ranks", b"group info: ", b"ollective sequence number", b"ollective state: ",
    b"ixl", b"NIXL", b"DeepEP", b"process_vm_", b"mlx5 device", b"on-zero status",
    b"ulprit rank", b"FR dumps", b"dump files from ranks", b"libibverbs", b"Signal: ", b"free()",
    b"double free", b"nfini", b"vfio", b"VFIO", b"qemu", b"QEMU", b"IOMMU", b"SR-IOV", b"SRIOV",
    b"sriov", b" pci 0000:", b"pcieport", b"lurm", b"munge", b"kubelet", b"docker", b"containerd",
    b"podman", b"pptainer", b"jax", b"JAX", b"eep_speed", b"deepspeed", b"DeepSpeed", b"accelerate",
    b"raylet", b"ray::", b"ray.", b"triton", b"Triton", b"nvcc", b"hipcc", b"ninja", b"SHARP",
    b"sharp_", b"OFED", b"openibd", b"perftest", b"IB device", b"umad", b"opensm", b"GDRCopy",
    b"gdrdrv", b"gdr_open", b"dcgm", b"DCGM", b"abric Manager", b"MPI", b"PMI", b"PMIx", b"psm2",
    b"hfi1", b"modprobe", b"insmod", b"dpkg", b"irmware", b"Secure Boot", b"was rejected",
    b"bnxt", b"ionic", b"MASTER_", b"RoCE", b"GLIBC", b"hsa_", b"hsa ", b"HSA", b"amd-smi", b"rocm",
    b"amdsmi", b"AMDSMI", b"RSMI", b"rsmi", b"Xid", b"XID", b"LnkSta", b"Ray", b"tensorrt",
    b"trtllm", b"TensorRT", b"Gloo", b"KV cache", b"Mooncake", b"mooncake", b"LMCache",
    b"flash_attn", b"xformers", b"flashinfer", b"kernel module", b"shm",
    b"kernel headers", b"License Status", b"nlicensed", b"IFNAME",
    b"memlock", b"sys files", b"simpleP2P", b"CORRECTABLE", b"Temperature (S",
    b"Verification error", b"oom_", b"gres",
    b"cuMem", b"cuIpc", b"cuMulticast", b"vlink",
    b"p2p", b"peers:", b"timedlock", b"PARTITION: ", b"gim ", b"PCI address space",
    b"[TTM]", b"VRAM", b"GTL", b"tomics", b"rccl", b"comgr", b"/drm/card", b"and userspace",
    b"radeon.com", b"aiter", b"/dev/dri", b"vf limit", b"needed by", b"SVM ", b"roctx",
    b"profil", b"PERFMON", b"ignor", b"lock has",
    b"cufio", b"cuFile", b"CUFile", b"CU_FILE", b"NVMe", b"NvMap", b"NvRm", b"nvmap", b"NVMAP",
    b"NvBuf", b"nvgpu", b"Memory Manager", b"IMEX", b"abric manager",
    b"DCP ", b"lsmod", b"watching fields", b"compute instance",
    b"GPU instance", b"-E- ", b"power limit",
    b"segfault", b"protection fault", b"xecutionProvider", b"target feature", b"Illegal inst",
    b"64-bit integer", b"static assertion", b"undeclared", b"user pages", b"device data", b"fp8e",
    b"float8", *VIA,
)  # fmt: skip
"""A line without any of these speaks of nothing that the patterns mean."""
_LIBRARY = re.compile(
    rb"[NR]CCL|nccl|ProcessGroup|c10d|NET/|ibv_|IBV_|mlx5|\w\.(?:cc|cu|h):\d|socket(?:Poll|Start|Prog)"
)
"""What a line names that comes from the library or from what carries its messages."""
LONGEST_EXCERPT = 360


Present = dict[bytes, list[re.Pattern[str]]]
"""Patterns that lines may match, by a text that the matching ones hold."""


class Signs:
    """Patterns for lines that the library did not mark as its own."""

    def __init__(
        self,
        patterns: Iterable[str] = (),
        general: Iterable[str] = (),
        plain: Iterable[str] = (),
    ) -> None:
        """`general` patterns count only in lines that name the library or its network.

        `plain`: those of the patterns whose words are enough, whatever else a line names.

        Raises ValueError for a pattern that says nothing certain of what it matches.
        """
        self._general, self._plain = frozenset(general), frozenset(plain)
        self._needs: list[tuple[re.Pattern[str], list[frozenset[bytes]]]] = []
        self._first: dict[bytes, list[int]] = {}
        """Which of them need a text first."""
        self._beside: dict[str, tuple[bytes, ...]] = {}
        """Of which a matching line holds one too: many patterns share them."""
        for pattern in dict.fromkeys((*patterns, *self._general)):
            compiled = re.compile(pattern)
            for needed in (alternatives := literals(pattern)):
                sets = [frozenset(text.encode() for text in texts) for texts in needed]
                for text in sets[0] if sets else ():
                    self._first.setdefault(text, []).append(len(self._needs))
                self._needs.append((compiled, sets))
            self._beside[pattern] = tuple(text.encode() for text in further(pattern))
            if not alternatives:
                raise ValueError(f"any line may match {pattern!r}: it has no text of its own")
        self._texts = Sought(text for _, sets in self._needs for texts in sets for text in texts)
        enough = (sets[0] for one, sets in self._needs if one.pattern in self._plain)
        self._enough = Sought(text for texts in enough for text in texts)

    def may_be_plain(self, words: Vocabulary) -> bool:
        """Whether a line of a text may match a pattern whose words are enough."""
        return self._enough.any(words)

    def plain(self, present: Present) -> set[bytes]:
        """Of what lines hold that may match, what the words of plain patterns are."""
        return {
            text
            for text, found in present.items()
            if any(one.pattern in self._plain for one in found)
        }

    def present(self, words: Vocabulary) -> Present:
        """The patterns that lines of a text may match, by what few of its lines hold."""
        there = set(self._texts.found(words))
        count = cache(lambda text: words.bare.count(text) or words.text.count(text))
        found: Present = {}
        for place in sorted({one for text in there for one in self._first.get(text, ())}):
            pattern, sets = self._needs[place]
            held = [texts & there for texts in sets]
            if not all(held):
                continue
            if len(held) > 1:
                held.sort(key=lambda texts: sum(map(count, texts)))
            for one in sorted(held[0]):
                found.setdefault(one, []).append(pattern)
        return found

    def excerpt(self, line: bytes, possible: Iterable[re.Pattern[str]]) -> str | None:
        """The part of the line that one of the patterns matches, None where none does."""
        decoded = line.decode("utf-8", "replace").strip()
        named = _LIBRARY.search(line) is not None
        held: dict[tuple[bytes, ...], bool] = {(): True}
        for pattern in possible:
            if not named and pattern.pattern in self._general:
                continue
            beside = self._beside[pattern.pattern]
            if beside not in held:
                held[beside] = any(line.find(text) >= 0 for text in beside)
            if not held[beside]:
                continue
            match = pattern.search(decoded)
            if match is not None:
                if is_no_output(decoded):
                    return None  # it takes longer than most patterns, of which few match
                start = 0 if match.end() <= LONGEST_EXCERPT else max(match.start() - 80, 0)
                return decoded[start : start + 4 * LONGEST_EXCERPT]
        return None


NONE = Signs()
