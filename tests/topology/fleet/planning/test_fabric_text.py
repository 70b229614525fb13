"""Slurm's topology files, plain lines, and leaves guessed from names."""

from __future__ import annotations

import pytest

from gputop.topology.fleet.planning import fabric_text
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.planning.fabric_text import fabric_from, fabric_guessed

# The example of topology.conf(5), with a comment, a continued line and keys in other cases.
CONF = """\
# topology/tree
SwitchName=s0 Nodes=dev[0-5]
switchname=s1 NODES=dev[6-8],\\
dev[9-11] LinkSpeed=100  # a comment
SwitchName=s2 Nodes=dev[12-17]
SwitchName=s3 Switches=s[0-2]
"""
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n"
YAML = """\
- topology: flat
  cluster_default: false
  flat: true
- topology: blocks
  block:
    block_sizes:
      - 4
    blocks:
    - block: b1
      nodes: n[01-04]
- topology: tree  # the default one
  cluster_default: True
  tree:
    switches:
    - switch: top
      children: leaf[1-2]
    - switch: leaf1
      nodes: "n[01-02],n07"
    - {switch: leaf2, nodes: n[03-04]}
"""
LINES = "# racks\nleaf1: g[1-4]\nleaf2: g5,g6 g7\nspine: leaf1,leaf2\n"


def leaves(fabric: SwitchFabric) -> dict[str, int]:
    found: dict[str, int] = {}
    for leaf in fabric.leaf_of.values():
        found[leaf] = found.get(leaf, 0) + 1
    return found


def test_a_tree_of_slurm_is_read() -> None:
    fabric = fabric_from(CONF, "topology.conf")
    assert leaves(fabric) == {"s0": 6, "s1": 6, "s2": 6}
    assert tuple(fabric.above("dev10")) == ("s1", "s3")
    assert fabric.distance("dev0", "dev5") == 1
    assert fabric.distance("dev0", "dev6") == 2
    assert fabric.distance("dev0", "elsewhere") is None
    assert fabric.word == "leaf"


def test_blocks_of_slurm_are_groups_without_a_switch_above() -> None:
    fabric = fabric_from(BLOCKS, "topology.conf")
    assert leaves(fabric) == {"b1": 4, "b2": 4}
    assert fabric.word == "block"
    far = fabric.distance("n1", "n5")
    assert far is not None
    assert far > 2


def test_the_default_topology_of_the_yaml_is_taken() -> None:
    fabric = fabric_from(YAML, "topology.yaml")
    assert leaves(fabric) == {"leaf1": 3, "leaf2": 2}
    assert tuple(fabric.above("n07")) == ("leaf1", "top")
    assert fabric.leaf("n04") == "leaf2"


def test_plain_lines_are_read_with_switches_above() -> None:
    fabric = fabric_from(LINES, "racks.txt")
    assert leaves(fabric) == {"leaf1": 4, "leaf2": 3}
    assert fabric.distance("g1", "g7") == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no node"),
        ("<html>\n", "line 1 is no line"),
        ("SwitchName=a Nodes=g[1-4\n", "line 1"),
        ("SwitchName=a Nodes=g1\nSwitchName=b Nodes=g1\n", "two switches, a and b"),
        ("SwitchName=a Nodes=g1\nSwitchName=b Switches=a\nSwitchName=a Switches=b\n", "circle"),
        ("SwitchName=a Nodes=g1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n", "below two"),
        ("- topology: x\n\ttree:\n", "by tabs"),
        ("a: g[1-99999999999]\n", "line 1"),
        ("leaf1: $(reboot)\n", "line 1"),
    ],
)
def test_what_is_no_topology_ends_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fabric_from(text, "x")


def test_leaves_are_guessed_only_as_an_assumption() -> None:
    fabric = fabric_guessed([f"rack{rack}-n{node}" for rack in (1, 2) for node in (1, 2, 3)])
    assert leaves(fabric) == {"rack1-n": 3, "rack2-n": 3}
    assert "guessed" in fabric.assumption
    runs = fabric_guessed((f"g{number}" for number in range(1, 11)), 4)
    assert leaves(runs) == {"run1": 4, "run2": 4, "run3": 2}
    with pytest.raises(ValueError, match="names/32"):
        fabric_guessed(["g1", "g2"])


@pytest.mark.parametrize("text", [CONF, BLOCKS, YAML, LINES])
def test_all_lines_together_have_a_limit_of_names(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_text, "MOST_NAMES", 5)
    with pytest.raises(ValueError, match="more than 5 names, the limit of one file"):
        fabric_from(text, "network")


def test_a_switch_that_many_lines_name_has_each_node_once() -> None:
    fabric = fabric_from("SwitchName=s0 Nodes=g[1-8]\n" * 500, "topology.conf")
    assert leaves(fabric) == {"s0": 8}
