"""Slingshot NICs, which the kernel lists as plain interfaces: without a plugin they are sockets."""

from __future__ import annotations

import re
import shlex

from ....model.finding import Finding
from ....model.severity import NOTICE
from ....model.surroundings import Interface
from ....nccl.settings import Settings
from ....nccl.xml.ports import network_ports
from ....wiring.relations import SLINGSHOT
from ... import vendors
from ...case import Case
from ...rule import Found, Rule

_NUMBER = re.compile(r"[0-9]{1,4}$")


def _check(case: Case) -> Found:
    fabric = [
        interface
        for interface in case.machine.interfaces
        if (interface.driver or "").startswith(SLINGSHOT) and interface.up is not False
    ]
    if not fabric:
        return [] if case.machine.interfaces else None
    software = case.machine.software
    plugins = software.nccl_plugins if software is not None else None
    if plugins or "NCCL_NET_PLUGIN" in case.variables:
        return []
    amd = vendors.amd(case.gpus)
    ports = network_ports(case.machine, Settings.of(case.snapshot), gdr=False, rccl=amd, notes=[])
    used = {port.name for port in ports}
    own = {nic.name for nic in fabric}
    # Where RDMA adapters are used, or the fabric is not, sockets carry no traffic.
    beside = [interface for interface in case.machine.interfaces if interface.name in used - own]
    if not own & used or not beside:
        return []
    return _finding(case, fabric, beside, plugins is not None, amd=amd)


def _finding(
    case: Case, fabric: list[Interface], beside: list[Interface], looked: bool, *, amd: bool
) -> Finding:
    library, plugin = ("RCCL", "aws-ofi-rccl") if amd else ("NCCL", "aws-ofi-nccl")
    names = ", ".join(nic.name for nic in beside)
    return SHARED.finding(
        NOTICE,
        f"{library}'s sockets would use {names} beside the Slingshot NICs",
        devices=[nic.address for nic in fabric if nic.address],
        evidence=[
            (
                "interfaces that sockets would use",
                ", ".join(_rate(nic) for nic in (*fabric, *beside)),
                "/sys/class/net, misc/socket.cc",
            ),
            (
                f"network plugin, as {plugin}",
                "none where the loader looks" if looked else "not looked for",
                "LD_LIBRARY_PATH, /etc/ld.so.conf.d, usual folders",
            ),
        ],
        impact=f"Without {plugin} the NICs are plain interfaces, and a job over several nodes "
        f"sends a part of its data over {names} too"
        + (", and RCCL may not recognise a node that it has rings ready for." if amd else ".")
        + " Jobs inside this node do not care.",
        fix=[
            (
                "Name the Slingshot NICs alone. "
                f"$ export NCCL_SOCKET_IFNAME={shlex.quote(_prefix(fabric))}"
            ),
            f"Better: put the folder of {plugin} on the loader's path.",
        ],
    )


def _rate(nic: Interface) -> str:
    if nic.speed_mbps is None:
        return f"{nic.name} at an unknown rate"
    return f"{nic.name} {nic.speed_mbps / 1000:g} Gbit/s"


def _prefix(fabric: list[Interface]) -> str:
    """The common beginning of the names, "hsn"; all names where they have none."""
    stems = {_NUMBER.sub("", nic.name) for nic in fabric}
    stem = stems.pop()
    return stem if not stems and stem else ",".join(nic.name for nic in fabric)


SHARED = Rule(
    id="slingshot-sockets",
    family="",
    title="Another network beside the Slingshot NICs",
    evidence="interfaces with their drivers and rates, NCCL_SOCKET_IFNAME, network plugins",
    disproof="NET/OFI in the library's log, or NET/Socket with the Slingshot NICs alone",
    sources=("ROCm/rccl src/misc/socket.cc", "ROCm/rccl src/graph/rome_models.cc"),
    check=_check,
)

RULES = (SHARED,)
