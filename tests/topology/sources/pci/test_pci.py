"""The PCI tree: position, kinds, links, ACS, names."""

from __future__ import annotations

import json

import pytest

from gputop.topology.model.part import PartialNode
from gputop.topology.sources.pci import pci
from tests.support.places import RECORDINGS

parse = pci.SOURCE.parse
DEEP = ("two-socket-switches", "epyc-root-ports")
BRIDGE = {"class": "0x060400", "vendor": "0x8086", "device": "0x352a"}
GPU = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330"}


def recorded(name: str) -> PartialNode:
    return parse(json.loads((RECORDINGS / name / "pci.json").read_text()))


def kinds(*paths: tuple[str, dict[str, str]]) -> dict[str, str]:
    devices = {path.rpartition("/")[2]: {**more, "path": path} for path, more in paths}
    return {device.address: device.kind for device in parse({"devices": devices}).pci}


@pytest.mark.parametrize("name", DEEP)
def test_the_drawn_trees_have_the_drawn_devices(name: str) -> None:
    part = recorded(name)
    first = (RECORDINGS / name / "relations.txt").read_text().splitlines()[0]
    drawn = dict(word.split("=") for word in first.split())
    by_kind = {
        kind: {device.address for device in part.pci if device.kind == kind}
        for kind in ("gpu", "nic")
    }
    assert by_kind["gpu"] == {drawn[label] for label in drawn if label.startswith("GPU")}
    assert {drawn[label] for label in drawn if label.startswith("NIC")} <= by_kind["nic"]
    known = {device.address for device in part.pci}
    assert all(
        device.parent in known or device.parent.startswith("pci0000:") for device in part.pci
    )


def test_two_levels_of_switches() -> None:
    part = recorded("two-socket-switches")
    above = {device.address: device for device in part.pci}
    chain, here = [], "0000:3c:00.0"
    while here in above:
        chain.append(above[here].kind)
        here = above[here].parent
    assert chain == [
        "gpu",
        "switch downstream",
        "switch upstream",
        "switch downstream",
        "switch upstream",
        "root port",
    ]
    assert here == "pci0000:37"


def test_kinds_follow_from_the_position_where_config_space_is_closed() -> None:
    root = "pci0000:00/0000:00:01.0"
    switch = f"{root}/0000:01:00.0"
    assert kinds(
        (root, BRIDGE),
        (switch, BRIDGE),
        (f"{switch}/0000:02:00.0", BRIDGE),
        (f"{switch}/0000:02:00.0/0000:03:00.0", GPU),
        ("pci0000:00/0000:00:02.0", BRIDGE),
        ("pci0000:00/0000:00:02.0/0000:04:00.0", BRIDGE),
        ("pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:00.0", {"class": "0x030000"}),
    ) == {
        "0000:00:01.0": "root port",
        "0000:01:00.0": "switch upstream",
        "0000:02:00.0": "switch downstream",
        "0000:03:00.0": "gpu",
        "0000:00:02.0": "root port",
        "0000:04:00.0": "bridge",  # nothing but an endpoint below: conventional PCI
        "0000:05:00.0": "other",
    }


@pytest.mark.parametrize(
    ("said", "kind"),
    [("4", "root port"), ("5", "switch upstream"), ("6", "switch downstream"), ("7", "bridge")],
)
def test_config_space_beats_the_position(said: str, kind: str) -> None:
    found = kinds(
        ("pci0000:00/0000:00:01.0", {**BRIDGE, "port_type": said}),
        ("pci0000:00/0000:00:01.0/0000:01:00.0", GPU),
    )
    assert found["0000:00:01.0"] == kind


@pytest.mark.parametrize(
    ("code", "vendor", "kind"),
    [
        ("0x030000", "0x10de", "gpu"),
        ("0x030200", "0x10de", "gpu"),
        ("0x038000", "0x1002", "gpu"),
        ("0x120000", "0x1002", "gpu"),
        ("0x120000", "0x1d0f", "other"),
        ("0x030000", "0x1a03", "other"),
        ("0x068000", "0x10de", "nvswitch"),
        ("0x068000", "0x8086", "other"),
        ("0x020700", "0x15b3", "nic"),
        ("0x020000", "0x1d0f", "nic"),
        ("0x010802", "0x144d", "nvme"),
        ("0x060000", "0x8086", "other"),
        ("nonsense", "0x10de", "other"),
    ],
)
def test_kinds_of_endpoints(code: str, vendor: str, kind: str) -> None:
    found = kinds(("pci0000:00/0000:00:01.0", {"class": code, "vendor": vendor}))
    assert found == {"0000:00:01.0": kind}


def test_a_domain_behind_a_device_has_its_own_root() -> None:
    path = "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0"
    (device,) = parse({"devices": {"10000:e0:06.0": {"path": path, **BRIDGE}}}).pci
    assert device.parent == "pci10000:e0"
    assert device.kind == "root port"


def test_without_a_path_the_address_names_the_root() -> None:
    (device,) = parse({"devices": {"0000:41:00.0": GPU}}).pci
    assert device.parent == "pci0000:41"


@pytest.mark.parametrize("width", ["0", "255", "63", "-1", "x"])
def test_a_width_that_is_none_is_a_gap(width: str) -> None:
    raw = {**GPU, "max_link_speed": "Unknown", "max_link_width": width, "current_link_width": "8"}
    part = parse({"devices": {"0000:01:00.0": raw}})
    (device,) = part.pci
    assert device.link_width_max is None
    assert device.why("link_width_max")
    assert device.link_width_now == 8
    assert device.link_speed_max_gts is None
    assert device.why("link_speed_max_gts") == "the kernel says 'Unknown'"
    (reading,) = part.pci_readings
    assert reading.link_speed_gts is None
    assert reading.why("link_speed_gts")


def test_unknown_numa_node_names_and_config_are_gaps() -> None:
    raw = {**BRIDGE, "numa_node": "-1", "acs": {"error": "config space needs root"}}
    (device,) = parse(
        {"devices": {"0000:01:00.0": raw}, "names": {"error": "no pci.ids on this machine"}}
    ).pci
    assert (device.numa_node, device.acs, device.device_name) == (None, None, None)
    assert device.why("numa_node") == "-1: the firmware does not say"
    assert device.why("acs") == "config space needs root"
    assert device.why("device_name") == "no pci.ids on this machine"
    assert device.why("driver") == "no driver is bound"


def test_acs_controls_by_name() -> None:
    def acs(value: str) -> object:
        return parse({"devices": {"0000:01:00.0": {**BRIDGE, "acs": value}}}).pci[0].acs

    assert acs("0x001d") == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert acs("0x0060") == ("EgressCtrl", "DirectTrans")
    assert acs("0x0000") == ()
    assert acs("") == ()


def test_regions_in_use() -> None:
    lines = [
        "0x00000000c1000000 0x00000000c1ffffff 0x0000000000040200",
        "0x000000000000e000 0x000000000000e07f 0x0000000000040101",
        "0x0000206000000000 0x0000207fffffffff 0x000000000014220c",
        *["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 3,
        "0x00000000c2000000 0x00000000c207ffff 0x0000000000046200",
    ]

    def bars(text: str) -> object:
        raw = {**GPU, "resource": text}
        return parse({"devices": {"0000:01:00.0": raw}}).pci[0].bars

    assert bars("\n".join(lines)) == (16 << 20, 128 << 30)
    assert bars("rubbish") is None
