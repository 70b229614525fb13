"""The rules of one library version, and which version's rules to follow."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from ..hardware.vendors import AMD
from ..model.machine import Machine
from .nodes import PathType
from .order import leading

DEFAULT = "nccl-2.28.9"
DEFAULT_RCCL = "rccl-2.21.5"
DEFAULT_GFX95 = "rccl-2.26.6"
"""2.21.5 does not know MI350 and MI355X, and would take their links for Vega's."""

NAME = re.compile(r"(?:(nccl|rccl)-)?v?(\d+(?:\.\d+){1,3})")


class UnknownVersionError(ValueError):
    """Text that names no version of NCCL or RCCL."""


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs between versions; the fields are explained in data/nccl_rules.toml."""

    library: str
    version: str
    tested: bool
    after: str | None = None
    xml_version: str
    link_tag: str
    path_types: tuple[str, ...]
    path_names: dict[str, str]
    path_rule: str
    device_nodes: bool
    relays: bool
    nvlink_gbs: tuple[tuple[int, float], ...]
    nvlink_exact_gbs: dict[str, float]
    intel_gbs: tuple[tuple[int, float], ...]
    p2p_default: str
    nvml_check: bool
    net_disable_intra: int
    net_always: bool
    pxn_disable: int
    pxn_type: str
    pxn_type_c2c: str
    pxn_c2c: int
    pxn_beyond: str
    pxn_needs_gdr: bool
    p2c: str
    gdr_level: str
    gdr_c2c: int
    gdr_c2c_rule: str
    local_net_start: str
    netdevs_policy: bool
    keeps_nets: bool
    merges_nic_ports: bool
    shm_label: str
    trimmed_transport: str
    domains: bool
    cumem: bool
    cumem_auto: bool
    mnnvl: bool
    xgmi_gbs: tuple[tuple[str, float], ...] = ()
    near_nics_alike: bool = False

    def name_of(self, path: PathType) -> str:
        """The path type as this library prints it."""
        return self.path_names.get(path.name, path.name)

    def at_least(self, version: str) -> bool:
        """Whether these rules are those of `version` or of a later one."""
        return numbers(self.version) >= numbers(version)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: "2.28.9" -> (2, 28, 9)."""
    return tuple(int(part) for part in version.split("."))


@cache
def versions() -> tuple[Rules, ...]:
    """Every version there are rules for, NCCL's first, oldest first."""
    text = files(__package__).joinpath("versions.toml").read_text(encoding="utf-8")
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in tomllib.loads(text)["version"]:
        base = made.get(("nccl", entry.get("after", "")), {})
        made[entry["library"], entry["version"]] = {**base, **entry}
    return tuple(msgspec.convert(one, Rules) for one in made.values())


def rules_for(name: str) -> tuple[Rules, str | None]:
    """The rules for "2.28.9", "nccl-2.28.9" or "rccl-2.21.5".

    A version without rules of its own gets the nearest older ones, else the oldest; the
    second value is then the assumption to show. Raises UnknownVersionError.
    """
    match = NAME.fullmatch(name.strip().lower())
    if match is None:
        raise UnknownVersionError(
            f"{name[:40]!r} is no version; write 2.28.9, nccl-2.28.9 or rccl-2.21.5"
        )
    library, version = match[1] or "nccl", match[2]
    known = [one for one in versions() if one.library == library]
    older = [one for one in known if numbers(one.version) <= numbers(version)]
    rules = older[-1] if older else known[0]
    title = library.upper()
    if rules.version == version:
        if rules.tested:
            return rules, None
        return rules, (
            f"the rules of {title} {version} were read from its source and are untested: "
            "no recording of that version was at hand"
        )
    side = "older" if older else "later"
    return rules, f"no rules for {title} {version}: those of {rules.version}, the nearest {side}"


def preferred(machine: Machine) -> tuple[str, str | None]:
    """The version that fits a node: installed, else by what the node is; and the assumption."""
    software = machine.software
    xml = machine.nccl_topology
    version = xml.get("version") if xml is not None else None
    amd = leading(machine.gpus) is AMD
    if version == "2" or (amd and version is None):
        if software is not None and software.rccl and NAME.fullmatch(f"rccl-{software.rccl}"):
            return f"rccl-{software.rccl}", None
        new = any((gpu.compute_capability or "").startswith("gfx95") for gpu in machine.gpus)
        default = DEFAULT_GFX95 if new else DEFAULT_RCCL
        return default, f"RCCL {default[5:]}: no installed RCCL was found"
    if software is not None and software.nccl and NAME.fullmatch(software.nccl):
        return f"nccl-{software.nccl}", None
    return DEFAULT, f"NCCL {DEFAULT[5:]}: no installed NCCL was found"
