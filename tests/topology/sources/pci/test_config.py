"""ACS in config space, and names in pci.ids."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.pci import pci
from gputop.topology.sources.pci.names import look_up
from gputop.topology.sources.pci.pci import capabilities

parse = pci.SOURCE.parse
BRIDGE = {"class": "0x060400", "vendor": "0x8086", "device": "0x352a"}


def extended(*records: tuple[int, int, bytes]) -> bytes:
    """4096 bytes of config space: (capability, offset of the next, what follows the header)."""
    space = bytearray(4096)
    space[0x34] = 0x60
    space[0x60:0x64] = bytes([0x10, 0x00, 0x62, 0x00])  # PCI Express, downstream port
    position = 0x100
    for capability, following, body in records:
        space[position : position + 4] = struct.pack("<I", capability | 1 << 16 | following << 20)
        space[position + 4 : position + 4 + len(body)] = body
        position = following or position
    return bytes(space)


def config(tmp_path: Path, space: bytes) -> dict[str, Any]:
    (tmp_path / "sys").mkdir(exist_ok=True)
    (tmp_path / "sys/config").write_bytes(space)
    return capabilities(FolderTree(tmp_path), "sys")


def test_acs_is_found_in_config_space(tmp_path: Path) -> None:
    space = extended((0x0001, 0x148, b""), (0x000D, 0, b"\x7f\x00\x1d\x00"))
    assert config(tmp_path, space) == {"port_type": "6", "acs": "0x001d"}


def test_config_space_without_acs_closed_or_broken(tmp_path: Path) -> None:
    assert config(tmp_path, extended((0x0001, 0, b"")))["acs"] == ""
    assert config(tmp_path, extended()) == {"port_type": "6", "acs": ""}
    assert config(tmp_path, bytes(64)) == {"acs": {"error": "config space needs root"}}
    ring = config(tmp_path, extended((0x0001, 0x148, b""), (0x0002, 0x100, b"")))
    assert ring["acs"] == {"error": "the list of capabilities does not end"}
    away = config(tmp_path, extended()[:256] + b"\xff" * 3840)
    assert away["acs"] == {"error": "extended config space is out of reach"}


@given(st.binary(max_size=600))
def test_any_config_space_gives_an_answer(tmp_path_factory: Any, space: bytes) -> None:
    found = config(tmp_path_factory.mktemp("config"), space)
    part = parse({"devices": {"0000:01:00.0": {**BRIDGE, **found}}})
    assert [device.address for device in part.pci] == ["0000:01:00.0"]


def test_names_from_pci_ids(tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/misc"
    folder.mkdir(parents=True)
    (folder / "pci.ids").write_text(
        "# comment\n10dd  Wrong\n\t2335  Wrong device\n10de  NVIDIA Corporation\n"
        "\t2330  GH100 [H100 SXM5 80GB]\n\t\t10de 16c1  A subsystem\n# between\n"
        "\t2335  GH100 [H200 SXM 141GB]\n15b3  Mellanox Technologies\n\t2336  Not NVIDIA's\n"
    )
    ids = [("10de", "2335"), ("10de", "2330"), ("10de", "2336"), ("ffff", "0000"), ("10de", "16c1")]
    assert look_up(FolderTree(tmp_path), ids) == {
        "10de": "NVIDIA Corporation",
        "10de:2330": "GH100 [H100 SXM5 80GB]",
        "10de:2335": "GH100 [H200 SXM 141GB]",
    }
    assert look_up(FolderTree(tmp_path / "usr"), ids) is None
