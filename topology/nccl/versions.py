"""Differences between versions of NCCL and RCCL, and the version that is followed."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ..hardware.vendors import AMD
from ..model.errors import GputopError
from ..model.machine import Machine
from ..model.severity import Word
from ..model.versions import Library, LibraryName, RunningLibrary, numbers
from ..toml import tomllib
from .nodes import LinkKind, PathType
from .order import leading

DEFAULT = "nccl-2.28.9"
DEFAULT_RCCL = "rccl-2.21.5"
DEFAULT_GFX95 = "rccl-2.26.6"
"""2.21.5 does not know MI350 and MI355X, and would take their links for Vega's."""

NAME = re.compile(r"(?:(nccl|rccl)-)?v?(\d+(?:\.\d+){1,3})")
OWN = ("library", "number", "after", "tested", "alike")
"""Fields that an entry never inherits."""

PathName = Literal[
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"
]


class PathPreference(Word):
    """What makes one of two paths the better one."""

    BANDWIDTH = "bandwidth"
    TYPE = "type"


class P2pDefault(Word):
    """How far P2P reaches where nobody set a level."""

    BY_CPU = "by-cpu"
    PXB = "pxb"
    BY_CPU_LAST = "by-cpu-last"


class C2cRelay(Word):
    """Which NICs a GPU reaches through the CPU that C2C joins it to."""

    NONE = "none"
    ALL = "all"
    NEAREST = "nearest"


class C2cGdr(Word):
    """Which paths GPUDirect RDMA may take on a C2C system."""

    NONE = "none"
    PHB = "phb"
    P2C = "p2c"
    LEVEL = "level"


class UnknownVersionError(GputopError, ValueError):
    """Text that names no version of NCCL or RCCL."""


class VersionTableError(GputopError, ValueError):
    """A table of versions that contradicts itself; the text names the table and the entry."""


class VersionEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One version in a table, with everything that it inherits filled in."""

    library: Literal["nccl", "rccl"]
    number: str
    """As the release is named, "2.28.9"."""
    after: str | None = None
    """The entry that it inherits from, "nccl-2.28.7"; None for the first."""
    tested: bool = False
    """Whether recorded decisions of this very version are compared with ours."""

    @property
    def is_rccl(self) -> bool:
        """Whether it is a version of RCCL, not of NCCL."""
        return self.library == "rccl"

    def at_least(self, number: str) -> bool:
        """Whether this is version `number` or a later one."""
        return numbers(self.number) >= numbers(number)


AnyEntry = TypeVar("AnyEntry", bound=VersionEntry)


class Version(VersionEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one version builds its graph and chooses transports; fields: see versions.toml."""

    link_tag: Literal["nvlink", "xgmi"]
    path_types: tuple[PathName, ...]
    path_names: dict[str, str]
    path_preference: PathPreference
    most_elements: int
    most_children: int
    most_nodes: int
    most_links: int
    device_nodes: bool
    relays: bool
    nvlink_gbs: tuple[tuple[int, float], ...]
    nvlink_exact_gbs: dict[str, float]
    intel_gbs: tuple[tuple[int, float], ...]
    intel_exact_gbs: dict[str, float]
    amd_gbs: float
    amd_family_gbs: dict[str, float]
    pex_gen5: bool
    c2c_link: LinkKind
    cpu_search: Literal["everywhere", "switches", "upwards"]
    kinds_apart: bool
    p2p_default: P2pDefault
    nvml_check: bool
    net_disable_intra: int
    net_always: bool
    pxn_disable: int
    pxn_type: PathName
    pxn_type_c2c: PathName
    pxn_c2c: int
    pxn_beyond: PathName
    pxn_needs_gdr: bool
    p2c: C2cRelay
    merges_paths: bool
    diverts_far_nics: bool
    gdr_level: PathName
    gdr_read_below_sm: int
    gdr_c2c: int
    gdr_c2c_paths: C2cGdr
    local_net_start: Literal["dev", "position", "dev-modulo"]
    net_owners: Literal["near", "any"]
    nvls_least_gpus: int
    netdevs_policy: bool
    keeps_nets: bool
    fuses: bool
    beside: str
    merges_nic_ports: bool
    shm_label: str
    trimmed_transport: Literal["NET", "SHM"]
    domains: bool
    cumem: bool
    cumem_auto: bool
    mnnvl: bool
    ring_exchange: Literal["never", "even", "crossing", "pairs", "own"]
    xgmi_gbs: tuple[tuple[str, float], ...] = ()
    near_nics_alike: bool = False
    searches: VersionEntry | None = None
    """How it searches where that is tried out; None as search.toml says of its number."""
    linked_by_path: bool = False
    gio_rings: bool = False

    def name_of(self, path: PathType) -> str:
        """The path type as this library prints it."""
        return self.path_names.get(path.name, path.name)


def load_table(path: Path, kind: type[AnyEntry]) -> tuple[AnyEntry, ...]:
    """Read a table of versions. Raises VersionTableError."""
    return parse_table(path.read_text(encoding="utf-8"), path.name, kind)


def parse_table(text: str, name: str, kind: type[AnyEntry]) -> tuple[AnyEntry, ...]:
    """Every entry of a table in TOML, in its order; `name` is for messages.

    Raises VersionTableError.
    """
    try:
        entries = tomllib.loads(text)["version"]
    except tomllib.TOMLDecodeError as error:
        raise VersionTableError(f"{name}: {error}") from error
    whole: dict[str, dict[str, Any]] = {}
    found: list[AnyEntry] = []
    for entry in entries:
        title = f"{entry.get('library')}-{entry.get('number')}"
        after = entry.get("after")
        if title in whole:
            raise VersionTableError(f"{name}: {title} has two entries")
        if after is not None and after not in whole:
            raise VersionTableError(
                f"{name}: {title} comes after {after}, which has no entry above it"
            )
        whole[title] = _inherited(whole[after] if after is not None else {}, entry)
        try:
            made = msgspec.convert(whole[title], kind)
        except msgspec.ValidationError as error:
            raise VersionTableError(f"{name}: {title}: {error}") from error
        if not NAME.fullmatch(title):
            raise VersionTableError(f"{name}: {title} is no version")
        if any(other.library == made.library and other.at_least(made.number) for other in found):
            raise VersionTableError(f"{name}: {title} stands below a newer version")
        found.append(made)
    return tuple(found)


def _inherited(older: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """An entry over the one that it comes after: tables row by row, anything else as a whole."""
    made = {name: value for name, value in older.items() if name not in OWN}
    for name, value in entry.items():
        old = made.get(name)
        made[name] = {**old, **value} if isinstance(old, dict) else value
    return made


def nearest(entries: Sequence[AnyEntry], library: str, number: str) -> AnyEntry:
    """The newest entry of a library up to version `number`; its oldest one if all are newer."""
    known = [entry for entry in entries if entry.library == library]
    older = [entry for entry in known if numbers(entry.number) <= numbers(number)]
    return older[-1] if older else known[0]


@cache
def versions() -> tuple[Version, ...]:
    """Every version that was looked at, NCCL's first, oldest first."""
    return load_table(Path(__file__).with_name("versions.toml"), Version)


def version_for(name: str) -> tuple[Version, str | None]:
    """The version to follow for "2.28.9", "nccl-2.28.9" or "rccl-2.21.5".

    A version without an entry follows the nearest older one, else the oldest; the second value is
    then the assumption to show. Raises UnknownVersionError.
    """
    match = NAME.fullmatch(name.strip().lower())
    if match is None:
        raise UnknownVersionError(
            f"{name[:40]!r} is no version; write 2.28.9, nccl-2.28.9 or rccl-2.21.5"
        )
    library, number = match[1] or "nccl", match[2]
    found = nearest(versions(), library, number)
    title = library.upper()
    if found.number == number:
        if found.tested:
            return found, None
        return found, (
            f"the rules of {title} {number} were read from its source and are untested: "
            "no recording of that version was at hand"
        )
    side = "older" if numbers(found.number) <= numbers(number) else "later"
    return found, f"no rules for {title} {number}: those of {found.number}, the nearest {side}"


def asked_for(name: str, machine: Machine) -> str:
    """A version with its library: a bare number, as "2.28.9", is one of the node's library."""
    match = NAME.fullmatch(name.strip().lower())
    bare = match is not None and match[1] is None
    return whole_version(f"{preferred(machine)[0][:4]}-{name.strip()}" if bare else name)


def whole_version(name: str) -> str:
    """The version that a name of two parts stands for: "nccl-2.21" is "nccl-2.21.5".

    Its newest known one; any other name stands for itself.
    """
    match = NAME.fullmatch(name.strip().lower())
    line = numbers(match[2]) if match is not None else ()
    if match is None or len(line) != 2:
        return name
    known = [one.number for one in versions() if one.library == (match[1] or "nccl")]
    of_line = [number for number in known if numbers(number)[:2] == line]
    if not of_line:
        return name
    return f"{match[1]}-{of_line[-1]}" if match[1] else of_line[-1]


def taken_for(name: str, whole: str) -> str:
    """That a name of two parts stands for a whole version; "" where it was whole already."""
    number = whole.rpartition("-")[2]
    if whole_version(name) == name or name.endswith(number):
        return ""
    return f"{name.strip()} is taken for {number}, the newest known of its line"


def no_rules(library: Library) -> str:
    """Whose rules are used for a version that has none of its own; "" for one that has."""
    found, why = version_for(f"{library.name}-{library.version}")
    return "" if found.number == library.version else why or ""


def preferred(machine: Machine) -> tuple[str, str | None]:
    """The version that fits a node: loaded by its jobs, installed, else by what the node is.

    The second value is the assumption to show.
    """
    software = machine.software
    loaded = running_here(machine)
    if loaded is not None:
        return f"{loaded.name}-{loaded.version}", None
    if follows_rccl(machine):
        if software is not None and software.rccl and NAME.fullmatch(f"rccl-{software.rccl}"):
            return f"rccl-{software.rccl}", None
        new = any((gpu.compute_capability or "").startswith("gfx95") for gpu in machine.gpus)
        default = DEFAULT_GFX95 if new else DEFAULT_RCCL
        return default, f"RCCL {default[5:]}: no installed RCCL was found"
    if software is not None and software.nccl and NAME.fullmatch(software.nccl):
        return f"nccl-{software.nccl}", None
    return DEFAULT, f"NCCL {DEFAULT[5:]}: no installed NCCL was found"


def follows_rccl(machine: Machine) -> bool:
    """Whether jobs on this node use RCCL, not NCCL."""
    xml = machine.nccl_topology
    version = xml.get("version") if xml is not None else None
    return version == "2" or (version is None and leading(machine.gpus) is AMD)


def running_here(machine: Machine) -> RunningLibrary | None:
    """The library of known version that most processes on the GPUs have loaded; None without."""
    name = LibraryName.RCCL if follows_rccl(machine) else LibraryName.NCCL
    running = () if machine.software is None else machine.software.running
    return next((one for one in running if one.version and one.name == name), None)
