"""Variables of a communication library that follow from how a node is wired."""

from __future__ import annotations

from gputop.answers.question import Answer
from gputop.topology.explain.nics import active_ports
from gputop.topology.hardware.vendors import AMD, vendor_of
from gputop.topology.model.severity import Word
from gputop.topology.model.surroundings import Interface
from gputop.topology.node import Node


class EnvironmentFor(Word):
    """The libraries whose variables are known."""

    NCCL = "nccl"
    UCX = "ucx"
    NVSHMEM = "nvshmem"
    GLOO = "gloo"


_INTERFACE = {EnvironmentFor.NCCL: "NCCL_SOCKET_IFNAME", EnvironmentFor.GLOO: "GLOO_SOCKET_IFNAME"}
_EXACT = {EnvironmentFor.NCCL: "="}
"""NCCL takes a name as the beginning of one, unless = stands before it."""
OWN_NICS = "NCCL and RCCL find the NIC of each GPU by the topology themselves"


class EnvironmentAnswer(Answer, frozen=True, kw_only=True, tag="gputop.environment/1"):
    """Variables to set, with what each rests on; what is open is not set."""

    library: EnvironmentFor
    variables: dict[str, str]
    """The same for all processes of the node."""
    of_gpu: dict[str, dict[str, str]]
    """PCI address of a GPU -> variables of the process that uses it."""
    why: tuple[str, ...]
    """Why these, and what was left open with the possibilities."""


def environment_answer(node: Node, library: EnvironmentFor) -> EnvironmentAnswer:
    """The variables for a library on this node, which is decided; nothing is set on a guess."""
    variables: dict[str, str] = {}
    of_gpu: dict[str, dict[str, str]] = {}
    why: list[str] = []
    if library in _INTERFACE:
        name, text = _interface(node.machine.interfaces)
        why.append(text)
        if name is not None:
            variables[_INTERFACE[library]] = f"{_EXACT.get(library, '')}{name}"
    if library is EnvironmentFor.NCCL:
        why.append(OWN_NICS)
    vendors = {*map(vendor_of, node.machine.gpus)}
    if library is EnvironmentFor.NVSHMEM and vendors == {AMD}:
        why.append("NVSHMEM runs on NVIDIA GPUs alone")
    elif library in (EnvironmentFor.UCX, EnvironmentFor.NVSHMEM):
        ports, why = active_ports(node, node.machine.gpus)
        if library is EnvironmentFor.UCX:
            of_gpu = {gpu: {"UCX_NET_DEVICES": port} for gpu, port in ports.items()}
        elif ports:
            variables["NVSHMEM_HCA_LIST"] = ",".join(dict.fromkeys(ports.values()))
    return EnvironmentAnswer(
        source=node.snapshot.source,
        assumptions=node.snapshot.assumptions,
        library=library,
        variables=variables,
        of_gpu=of_gpu,
        why=tuple(why),
    )


def _interface(interfaces: tuple[Interface, ...]) -> tuple[str | None, str]:
    """The interface that joins nodes, where only one can; and why."""
    able = [one for one in interfaces if one.up and one.ips and one.address]
    routed = [one for one in able if one.default_route]
    names = ", ".join(one.name for one in able)
    if len(able) == 1:
        return names, f"{names} is the only interface of a device that is up and has an address"
    if len(routed) == 1:
        others = "the others that are up, if those join the nodes: "
        rest = ", ".join(one.name for one in able if one is not routed[0])
        return routed[0].name, f"{routed[0].name} has the default route; {others}{rest}"
    return None, f"open which interface joins the nodes: {names or 'none is known to be up'}"
