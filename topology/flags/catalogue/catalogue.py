"""The catalogue of variables, with look-ups by name, old name, typing error and word."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...hardware.terms import VendorTerms, library_terms
from ...model.severity import Word
from ...model.versions import numbers
from ...toml import tomllib

FOLDER = Path(__file__).parent
FIRST = "catalogue.toml"
"""The file of NCCL, RCCL and what they stand on; the others are about other programs."""
NEAR = 0.78
"""Similarity (difflib's ratio) from which a name counts as a typing error of another name."""
ALIKE = 0.5
"""Similarity of the first words of two names, below which they are of two programs."""
BESIDE = 0.06
"""Similarity that a name may lack against the best match and still be named beside it."""
SHARED = "NCCL_"
"""How nearly all names begin, which makes none like another."""
ROOM = 16
"""Times that a letter may stand in a name."""
LIBRARY = ("NCCL_", "RCCL_")
"""Prefixes of NCCL's and RCCL's own variables."""
MISNAMED = {"PYTORCH_TUNABLE_OPS": "PYTORCH_TUNABLEOP_ENABLED"}
"""Name that well-known texts use although nothing reads it -> the name that is meant."""


class Program(NamedTuple):
    """A program beside NCCL whose variables are described."""

    title: str
    starts: tuple[str, ...]
    """How the names that it reads begin."""


PROGRAMS = {
    "ucx": Program("UCX", ("UCX_",)),
    "nvshmem": Program("NVSHMEM", ("NVSHMEM_",)),
    "gloo": Program("Gloo", ("GLOO_", "TORCH_GLOO_")),
    "nixl": Program("NIXL", ("NIXL_",)),
    "ompi": Program("Open MPI", ("OMPI_", "PMIX_", "PRTE_")),
    "vllm": Program("vLLM", ("VLLM_",)),
    "sglang": Program("SGLang", ("SGLANG_", "SGL_")),
}
"""Group -> the program."""


def program_of(name: str) -> Program | None:
    """The program whose names begin like this one."""
    return next((one for one in PROGRAMS.values() if name.upper().startswith(one.starts)), None)


SHELVES = (
    *("transport", "network", "algorithm", "memory", "debug", "AMD", "PyTorch"),
    *(program.title for program in PROGRAMS.values()),
)
"""The groups of the list of variables, in its order."""
_SHELF_OF = {
    "transport": "transport",
    "topology": "transport",
    "visibility": "transport",
    "network": "network",
    "gdr": "network",
    "pxn": "network",
    "bootstrap": "network",
    "memory": "memory",
    "debug": "debug",
    "errors": "debug",
}
"""Subject -> group; the others are about algorithms, channels and launches."""
_AMD, _PYTORCH, _LEVEL, _CHANNELS = ("rocm", "rccl"), "pytorch", "level", "channels"
_CLAUSE = re.compile(r"(?<=[a-z0-9)}])[.;:](?= |$)")


class FlagKind(Word):
    """The decision that a flag changes; none: nothing that is predicted."""

    PATHS = "paths"
    P2P = "p2p"
    SHM = "shm"
    NET = "net"
    GDR = "gdr"
    PXN = "pxn"
    SEARCH = "search"
    TUNING = "tuning"
    NONE = "none"

    @property
    def of_pairs(self) -> bool:
        """Whether it concerns the paths and transports of pairs of GPUs."""
        return self in (FlagKind.PATHS, FlagKind.P2P, FlagKind.SHM)

    @property
    def of_networks(self) -> bool:
        """Whether it concerns GPUs and NICs."""
        return self in (FlagKind.NET, FlagKind.GDR, FlagKind.PXN)


class Names(Word):
    """What of a node a value names."""

    INTERFACE = "interface"
    DEVICE = "device"
    PORT = "port"
    """A port of an RDMA device, mlx5_0:1, or an interface."""
    ADDRESS = "address"


class Here(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a value names of a node, and what follows where that is not there."""

    names: Names
    missing: str
    """A clause; {library} stands for NCCL or RCCL."""
    exact: bool = False
    """Whether it gives whole names; else beginnings of names, as NCCL takes them."""
    every: bool = False
    """Whether each name must be there."""
    fatal: bool = False
    """Whether the program refuses to start then."""


class Default(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for an unset variable from one version of a library on."""

    library: str
    since: str
    value: str


class OnRccl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sentences for RCCL that replace those that name NVIDIA's hardware."""

    values: str | None = None
    changes: str | None = None
    set_when: str | None = None
    trap: str | None = None


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable. The head of catalogue.toml says what the fields mean."""

    name: str
    group: str
    subject: str
    type: str
    values: str
    default: str
    changes: str
    source: str
    kind: FlagKind = FlagKind.NONE
    options: tuple[str, ...] = ()
    exact: bool = False
    """Whether the case of `options` counts."""
    strict: bool = False
    """Whether a word that is none of `options` ends the start."""
    here: Here | None = None
    fallback: str | None = None
    """What an unknown word of an enum means; None where it is ignored."""
    history: tuple[Default, ...] = ()
    since: str | None = None
    until: str | None = None
    aliases: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    short: str = ""
    """What it does in a few words, where the first clause of `changes` is too long."""
    set_when: str | None = None
    trap: str | None = None
    tries: tuple[str, ...] = ()
    on_rccl: OnRccl | None = None
    confirmed: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, and others under which it is read."""
        return (self.name, *self.aliases)

    @property
    def is_level(self) -> bool:
        """Whether its value is a path type."""
        return self.type == _LEVEL

    @property
    def program(self) -> Program | None:
        """The program beside NCCL that reads it; None for NCCL and what it stands on."""
        return PROGRAMS.get(self.group)

    @property
    def whose(self) -> str:
        """Whose it is, in a word."""
        return self.program.title if self.program else self.group

    @property
    def of_rocm(self) -> bool:
        """Whether ROCm reads it, and no collective library."""
        return self.group == _AMD[0]

    @property
    def of_pytorch(self) -> bool:
        """Whether PyTorch reads it."""
        return self.group == _PYTORCH

    @property
    def of_channels(self) -> bool:
        """Whether it is about the number of channels."""
        return self.subject == _CHANNELS

    @property
    def p2p_level(self) -> bool:
        """Whether it is the path type up to which pairs use P2P."""
        return self.is_level and self.kind is FlagKind.P2P

    @property
    def modelled(self) -> bool:
        """Whether a library reads it and predictions depend on it."""
        return self.of_library and self.kind is not FlagKind.NONE

    @property
    def in_short(self) -> str:
        """What it does in a few words."""
        return self.short or _CLAUSE.split(self.changes)[0].removesuffix(".")

    @property
    def shelf(self) -> str:
        """The group in which it is listed, one of SHELVES."""
        if self.group in _AMD:
            return "AMD"
        if self.of_pytorch:
            return "PyTorch"
        if self.program:
            return self.program.title
        return _SHELF_OF.get(self.subject, "algorithm")

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that read it: "nccl", "rccl", or the one that the group names."""
        return self.read_by or {"nccl": ("nccl", "rccl")}.get(self.group, (self.group,))

    @property
    def of_library(self) -> bool:
        """Whether NCCL or RCCL itself reads it, so that versions and predictions mean something."""
        return "nccl" in self.libraries or "rccl" in self.libraries

    def said(self, words: VendorTerms) -> Flag:
        """The entry with these words in its sentences, which are templates in the file."""
        return msgspec.structs.replace(
            self,
            short=words.fill(self.short),
            changes=words.fill(self.changes),
            set_when=self.set_when and words.fill(self.set_when),
            trap=self.trap and words.fill(self.trap),
        )

    def default_of(self, library: str, version: tuple[int, ...]) -> str:
        """Return what holds in this version of "nccl" or "rccl" for an unset variable."""
        found = self.default
        best: tuple[int, ...] | None = None
        for default in self.history:
            since = numbers(default.since)
            if default.library == library and since <= version and (best is None or since >= best):
                found, best = default.value, since
        return found


class Catalogue:
    """All flags, in the order of the file."""

    def __init__(self, flags: tuple[Flag, ...]) -> None:
        self.flags = flags
        self._by_name = {flag.name: flag for flag in flags}
        self._by_alias = {alias: flag for flag in flags for alias in flag.aliases}
        spelt = [(name, name.upper()) for name in self.names()]
        self._alphabet = "".join(sorted(set("".join(upper for _, upper in spelt))))
        self._spellings = [
            (name, [(one, _letters(one, self._alphabet)) for one in (upper, upper[len(SHARED) :])])
            for name, upper in spelt
        ]

    def flag(self, name: str) -> Flag | None:
        """Find the flag with this name or alias; None when there is none."""
        return self._by_name.get(name) or self._by_alias.get(name)

    def alias(self, name: str) -> bool:
        """Whether the name is an alias of a flag."""
        return name in self._by_alias and name not in self._by_name

    def names(self) -> tuple[str, ...]:
        """Every name that is read, aliases included."""
        return (*self._by_name, *self._by_alias)

    def closest(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Names that a misspelt `name` may stand for, best first; () when none is similar.

        The comparison ignores case and the prefix that nearly all names share. A name of one
        program stands for no name of another.
        """
        typed = name.upper()
        if typed in MISNAMED:
            return (MISNAMED[typed],)
        scored: list[tuple[float, str]] = []
        theirs = typed.startswith(SHARED)
        mine = [(name, _letters(name, self._alphabet)) for name in (typed, typed[len(SHARED) :])]
        for known, spellings in self._spellings:
            bare = theirs and known.startswith(SHARED)
            (name, letters), (other, its) = mine[bare], spellings[bare]
            # As `quick_ratio` of difflib, which first indexes each name again.
            if 2 * (letters & its).bit_count() < NEAR * (len(name) + len(other)):
                continue
            if not _akin(typed, known):
                continue
            if _swapped(name, other):
                scored.append((1.0, known))
                continue
            ratio = SequenceMatcher(None, name, other, autojunk=False).ratio()
            if ratio >= NEAR:
                scored.append((ratio, known))
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        good = [known for ratio, known in scored if ratio >= scored[0][0] - BESIDE]
        return tuple(good[:count])

    def without_prefix(self, name: str) -> tuple[str, ...]:
        """Names of the library that `name` may stand for without their NCCL_; () when none is."""
        start = f"NCCL_{name.upper().split('_', 1)[0]}"
        known = any(one == start or one.startswith(f"{start}_") for one in self.names())
        return self.closest(f"NCCL_{name}") if known else ()

    def search(self, text: str) -> tuple[Flag, ...]:
        """Find flags whose entry has every word of `text`; names that have all words come first."""
        words = text.lower().split()
        found = [flag for flag in self.flags if all(word in _haystack(flag) for word in words)]
        return tuple(
            sorted(found, key=lambda flag: not all(word in flag.name.lower() for word in words))
        )


@cache
def _haystack(flag: Flag) -> str:
    flag = flag.said(library_terms("nccl"))
    parts = (flag.name, *flag.aliases, flag.group, flag.subject, flag.values, flag.changes)
    return " ".join((*parts, flag.set_when or "", flag.trap or "")).lower()


@cache
def catalogue() -> Catalogue:
    """The catalogue of the program, read at first use, which takes about 80 ms."""
    found: list[Flag] = []
    for path in sorted(FOLDER.glob("*.toml"), key=lambda path: (path.name != FIRST, path.name)):
        found += msgspec.convert(tomllib.loads(path.read_text("utf-8"))["flag"], list[Flag])
    return Catalogue(tuple(found))


def _akin(typed: str, known: str) -> bool:
    """Whether two names may be of one program: their first words are alike, or one has none."""
    if program_of(typed) is not program_of(known):
        return False
    first, other = typed.split("_", 1)[0], known.split("_", 1)[0]
    return "_" not in typed or SequenceMatcher(None, first, other, autojunk=False).ratio() >= ALIKE


def _swapped(typed: str, known: str) -> bool:
    """Whether two neighbouring letters changed places: AGLO for ALGO."""
    if len(typed) != len(known):
        return False
    other = [place for place, (a, b) in enumerate(zip(typed, known, strict=True)) if a != b]
    return len(other) == 2 and other[1] == other[0] + 1 and sorted(typed) == sorted(known)


def _letters(name: str, alphabet: str) -> int:
    """A bit for each time that a letter stands in a name: two have as many in common as both have.

    In a known name no letter stands more often than there is room for.
    """
    found = 0
    for letter, count in Counter(name).items():
        if (place := alphabet.find(letter)) >= 0:
            found |= (1 << min(count, ROOM)) - 1 << ROOM * place
    return found


# Names outside the catalogue that some program reads, and that deserve no warning: gathered from
# every release of NCCL from 2.3.5 to 2.30.7 and from RCCL 2.21.5 (all NCCL_PARAM, RCCL_PARAM,
# ncclGetEnv and getenv), from the names in the libraries of 2.31.2 and 2.32.3, and from the guides
# of the plugins named here; and programs beside the library whose names begin like no other's.
PLUGINS = {
    "HCOLL_": "NVIDIA's HCOLL",
    "I_MPI_": "Intel MPI",
    "LMCACHE_": "LMCache",
    "MC_": "Mooncake",
    "MOONCAKE_": "Mooncake",
    "MORI_": "AMD's MoRI",
    "MPICH_": "MPICH",
    "MV2_": "MVAPICH",
    "NCCL_CHECKPOINT_": "NCCL's checkpoint library",
    "NCCL_EP_": "NCCL's expert-parallel library",
    "NCCL_FASTRAK_": "Google's TCPXO network plugin",
    "NCCL_GPUDIRECTTCPX_": "Google's TCPX network plugin",
    "NCCL_IBEXT_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_INSPECTOR_": "NCCL's inspector plugin",
    "NCCL_PLUGIN_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_PROFILER_CE_": "NCCL's example profiler plugin",
    "NCCL_PROFILE_": "NCCL's example profiler plugin",
    "NCCL_SHARP_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_SHIMNET_": "Google's network plugin",
    "NCCL_TESTS_": "the nccl-tests programs",
    "NCCL_TUNER_CONFIG_PATH": "Google's tuner plugin",
    "NCCL_UCX_": "NVIDIA's RDMA and SHARP plugin",
    "ROCSHMEM_": "rocSHMEM",
    "SHARP_": "NVIDIA's SHARP library",
    "TP_": "TensorPipe, PyTorch's RPC",
    "TRTLLM_": "TensorRT-LLM",
    "UCC_": "UCC",
}
"""Beginning of a name -> the program that reads such names."""

_UNDOCUMENTED = """
    AGG_ALLOC_MODE AGG_CHANNEL_SIZE CE_CHUNK_SIZE CE_COLL_AG_MULTICAST_THRESHOLD
    CE_INTRA_GPU_MEMCPY_ENABLE CHUNK_SIZE CUDA_PATH DEV_API_JIT ENABLE_VERSION_CHECK
    ENQUEUE_REARCH_ENABLE GDAKI_FORCE_MCST GDAKI_USE_RELIABLE_DB GDRCOPY_TAIL_ENABLE
    GDRCOPY_USE_INTERNAL_DMABUF GIN_CONNECTION_RAIL GIN_COUNTER_POOL_SIZE GIN_ERROR_QUERY_SEC
    GIN_EXCLUSIVE_CONTEXTS GIN_GDAKI_LAG_AWARE_DISABLE GIN_GDAKI_MAX_DEST_RD_ATOMIC
    GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_OOO_OPT GIN_IB_TC
    GIN_NCONNECTIONS GIN_NCONTEXTS GIN_PLUGIN_REF_COUNT GIN_PROXY_NTHREADS GIN_PROXY_POLL_BATCH
    GIN_PROXY_QUEUE_SIZE GIN_SIGNAL_POOL_SIZE HIER_CE_COLL_AG_RAIL_RING_ENABLE
    HIER_CE_COLL_NUM_CTX IB_EVENT_BASED_LB_REMOTE IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT
    IB_MQP_RETRY_SLEEP_MSEC IB_PREPOST_RECEIVE_WORK_REQUESTS IB_RECEIVER_SIDE_MATCHING_SCHEME
    IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY
    IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
    IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_SORT_MERGE_NICS IB_WQE_LATENCY_REPORT
    IB_WQE_LATENCY_THRESHOLD_NS LSA_TEAM_SIZE MLOPART_RDMA_ENABLE NUM_RMA_CTX NUM_RMA_INT_CTX
    NVLS_UB_SIZE P2P_PER_CHANNEL_REG_NET_BW PROXY_PROFILE RMA_DISABLE RMA_IB_WR_BATCHSIZE
    RMA_MULTI_CTX_THRESHOLD RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE
    SHADOW_MEMPOOL_MAX_SIZE SHARED_BUFF_COUNT SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES
    SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE TOPO_SCATTER_START_NET WORK_FIFO_DEPTH
"""
INTERNAL = frozenset(f"NCCL_{name}" for name in _UNDOCUMENTED.split()) | {
    "RCCL_CLIQUE_ALLREDUCE_BYTE_LIMIT",
    "RCCL_CLIQUE_ALLREDUCE_NCHANNELS",
    "RCCL_MSCCL_FORCE_FULLOPS",
    "RCCL_MSCCL_WORK_FIFO_DEPTH",
}
"""Undocumented names that a release of the library reads, mostly for its own tests."""


def elsewhere(name: str) -> str:
    """Say in a clause who reads a name outside the catalogue; "" when no reader is known."""
    if name in INTERNAL:
        return "read by some releases of the library, which do not document it"
    reader = next((who for start, who in PLUGINS.items() if name.startswith(start)), "")
    return f"read by {reader}, not by the library itself" if reader else ""


class Unknown(NamedTuple):
    """What is known of a name outside the catalogue."""

    why: str
    """A clause."""
    read: bool
    """Whether a program may read it: the catalogue is complete only for NCCL and RCCL."""


@lru_cache(16_384)
def unknown(name: str) -> Unknown:
    """Look up a name outside the catalogue."""
    reader = elsewhere(name)
    if reader:
        return Unknown(f"{reader}; what it does is not described here", True)
    near = catalogue().closest(name, 2)
    if program := program_of(name):
        also = f"; {' and '.join(near)} {'are' if near[1:] else 'is'}" if near else ""
        return Unknown(
            f"a name like those that {program.title} reads, not described here{also}", True
        )
    if near:
        return Unknown(f"not a name that is known; {' or '.join(near)} is", False)
    if not name.startswith(LIBRARY):
        return Unknown("not described here", True)
    plugin = "the library does not read it, though a plugin may"
    return Unknown(f"not a name that is known here: {plugin}", False)
