"""What the tables of reference nodes say without a source that was read, in words."""

from __future__ import annotations

from functools import cache

from .specs import table

WORDS = {
    "cpu": "CPU model",
    "fabric": "how its links run",
    "links_per_gpu": "links of each GPU",
    "links_per_pair": "links of each pair",
    "network_gbps": "rate of the network",
    "nic_gbit": "rate of a NIC",
    "nic_groups": "which GPU is next to which NIC",
    "nic_kind": "kind of NIC",
    "nics": "number of NICs",
    "nics_total_gbit": "rate of the network",
    "numa": "NUMA node of each GPU",
    "nvswitch_in_domain": "NVSwitches of the rack",
    "sku": "GPU model",
    "storage_nics": "NICs for storage",
    "topo_allowed": "relation of the GPUs",
    "topo_gpu_nic": "relation of GPUs and NICs",
    "topo_matrix_of": "links of each pair",
    "topo_pair": "relation of the GPUs",
    "visible_topology": "PCI tree that a guest sees",
}
"""Key in nodes.toml -> what it is, as a person would say."""


@cache
def unconfirmed(node: str) -> tuple[str, ...]:
    """What no source confirms about a node of nodes.toml; compared with nothing."""
    keys = table("nodes")["node"][node].get("unconfirmed", ())
    return tuple(dict.fromkeys(WORDS[key] for key in keys))


def sentence(what: tuple[str, ...]) -> str:
    """One phrase for people; "" where everything is confirmed."""
    return f"unconfirmed: {', '.join(what)}" if what else ""
