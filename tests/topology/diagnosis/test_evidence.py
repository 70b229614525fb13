"""What only some text shows is not called healthy, and the answer lists what the text shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.engine import LACKING, Diagnosis
from gputop.topology.expectation.reference import named
from gputop.topology.hardware.vendor import LEAST, SENSE, Vendor
from gputop.topology.hardware.vendors import BY_ID
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Gpu, Machine, PciDevice
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

from ...support.rule_cases import base, diagnosed, edited

ALL_OF_GPU = "nvidia-smi -q"
LINKS = "nvidia-smi nvlink -s"


def diagnosis(name: str) -> Diagnosis:
    return diagnosed(load([str(RECORDINGS / name)]).snapshot)


def missing(found: Diagnosis) -> Finding:
    (one,) = [finding for finding in found.findings if finding.id == LACKING]
    return one


@pytest.mark.parametrize(
    ("name", "count", "shown", "seen"),
    [
        (
            "nvidia-public/b300-8-topo.txt",
            5,
            "CPUs near them, relations of the GPUs, NVLinks of each pair, relations of the NICs, "
            "NICs",
            "8 x GPU of unknown model joined by NV18",
        ),
        (
            "hgx-h200-4gpu-vm/nvidia-smi-topo-m.txt",
            3,
            "CPUs near them, ",
            "4 x GPU of unknown model joined by NV18",
        ),
        (
            "nccl-topologies/nvswitch_2s_intel.xml",
            7,
            "addresses of the GPUs, models of the GPUs",
            "",
        ),
        ("amd-public/mi250x-8-showtoponuma.txt", 1, "CPUs near them", "8 x GPU of unknown model"),
    ],
)
def test_the_answer_counts_and_lists_what_a_text_shows(
    name: str, count: int, shown: str, seen: str
) -> None:
    found = diagnosis(name)
    assert found.verdict == "cannot tell"
    one = missing(found)
    things = f"{count} thing{'s' * (count > 1)}"
    assert one.title.startswith(f"seen: {seen}")
    assert "; health is not in this text; not known of " in one.title
    assert not any(word in one.title for word in ("nothing", "wrong", "healthy"))
    assert one.evidence[0].what == f"read: {things}"
    assert one.evidence[0].value.startswith(shown)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("nvidia-public/b300-8-topo.txt", [ALL_OF_GPU, LINKS]),
        ("nvidia-smi/l40s-q.txt", []),
        ("nvidia-smi/h200-csv.txt", []),
        ("nvidia-smi/v100-4-page.md", []),
        ("hgx-h200-4gpu-vm/sysfs.tar.gz", [ALL_OF_GPU, LINKS]),
        ("amd-public/mi210-static.json", ["amd-smi static --json", "amd-smi metric --json"]),
    ],
)
def test_what_to_fetch_is_what_the_text_lacks(name: str, commands: list[str]) -> None:
    found = diagnosis(name)
    assert found.verdict == "cannot tell"
    fixes = [fix.command for fix in missing(found).fix]
    assert fixes[0] == "gputop snapshot -o node.json"
    tree = [command for command in fixes[1:] if command.startswith("tar ")]
    assert bool(tree) == (not name.endswith(".tar.gz"))
    assert [command for command in fixes[1:] if command not in tree] == commands


@pytest.mark.parametrize("name", ["hgx-h200-4gpu-live/snapshot.json", "hgx-h200-4gpu-vm"])
def test_a_node_of_which_all_was_read_is_healthy(name: str) -> None:
    found = diagnosis(name)
    assert (found.verdict, found.lacking) == ("healthy", ())


def test_a_text_without_variables_says_nothing_of_variables() -> None:
    silent = {"flag-costs", "flag-ignored", "device-order", "driver-not-answering", "driver-fails"}
    assert silent <= set(diagnosis("nvidia-public/b300-8-topo.txt").unexamined)
    assert silent <= set(diagnosis("hgx-h200-4gpu-live/snapshot.json").examined)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia-public/b300-8-topo.txt", "dgx-b300"),
        ("hgx-h200-4gpu-vm/nvidia-smi-q.xml", "dgx-h200"),
        ("nvidia-public/h100-8-topo-mp.txt", "dgx-h100"),
    ],
)
def test_what_was_not_read_is_held_against_no_reference(name: str, expected: str) -> None:
    """A matrix names NICs without their rates; an address says nothing of what it is joined to."""
    found = diagnosed(load([str(RECORDINGS / name)]).snapshot, reference=named(expected))
    assert not {"unexpected-network", "unexpected-wiring", "unexpected-links"} & {
        finding.id for finding in found.findings
    }
    assert "unexpected-network" in found.unexamined


def test_a_template_that_names_places_alone_is_no_fault(tmp_path: Path) -> None:
    """Clouds hand out such files for NCCL_TOPO_FILE: the driver was not asked, nor were links."""
    ids = 'vendor="0x10de" device="0x20b2" subsystem_vendor="0x10de" subsystem_device="0x1463"'
    gpus = "".join(
        f'<pci busid="ffff:ff:0{place}.0" class="0x060400" link_speed="16 GT/s" link_width="16">'
        f'<pci busid="000{place}:00:00.0" class="0x030200" {ids} link_speed="16 GT/s" '
        'link_width="16"/></pci>'
        for place in range(1, 9)
    )
    file = tmp_path / "topo.xml"
    file.write_text(
        '<system version="1"><cpu numaid="0" affinity="f" arch="x86_64" vendor="AuthenticAMD" '
        f'familyid="23" modelid="49">{gpus}</cpu></system>'
    )
    found = diagnosed(load([str(file)]).snapshot, reference=named("dgx-a100"))
    assert [finding.id for finding in found.findings] == [LACKING]


def test_explain_says_that_it_takes_a_place_for_granted_where_topo_does_not_know_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "gpus.csv"
    file.write_text(
        "index, name, uuid, pci.bus_id\n"
        "0, NVIDIA H100 PCIe, GPU-00000000-0000-0000-0000-000000000000, 00000000:21:00.0\n"
        "1, NVIDIA H100 PCIe, GPU-00000001-0000-0000-0000-000000000000, 00000000:81:00.0\n"
    )
    snapshot = load([str(file)]).snapshot
    assert Node(snapshot).matrix.rows[0].cells[1].code == "?"
    (step,) = (
        step for step in predict(snapshot).pairs[0].steps if step.question == "how far apart?"
    )
    assert step.basis == "assumed"
    assert "not read" in step.because
    whole = load([str(RECORDINGS / "hgx-h200-4gpu-live/snapshot.json")]).snapshot
    steps = predict(whole).pairs[0].steps
    assert {step.basis for step in steps if step.question == "how far apart?"} == {"read"}


@pytest.mark.parametrize("named_evidence", [False, True])
def test_a_vendor_that_names_no_evidence_is_never_healthy(
    named_evidence: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Vendor(id="acme", name="Acme")
    if named_evidence:
        record = msgspec.structs.replace(record, evidence=LEAST)
    monkeypatch.setitem(BY_ID, "acme", record)
    gpus = tuple(
        Gpu(address=f"0000:0{n}:00.0", vendor="acme", index=n, uuid=f"A-{n}", memory_bytes=2**36)
        for n in range(8)
    )
    pci = tuple(PciDevice(address=gpu.address, parent="") for gpu in gpus)
    snapshot = NodeSnapshot(taken_at=0.0, machine=Machine(gpus=gpus, pci=pci))
    found = diagnosed(snapshot)
    assert any(finding.id == LACKING for finding in found.findings) is not named_evidence
    assert (found.verdict == "healthy") is named_evidence
    if not named_evidence:
        assert found.verdict == "cannot tell"
        assert missing(found).devices == tuple(gpu.address for gpu in gpus)


@pytest.mark.parametrize(
    ("name", "why", "ecc", "lacks"),
    [
        # What a product lacks is not missing, as far as nothing says that this one has it.
        ("NVIDIA Unheard Of", "not supported", None, []),
        ("NVIDIA Unheard Of", "no permission", None, ["memory"]),
        (None, "not supported", None, ["memory"]),
        (None, None, False, []),
        (None, None, True, ["errors"]),
    ],
)
def test_a_value_that_is_not_supported_is_missing_where_the_product_has_it(
    name: str | None, why: str | None, ecc: bool | None, lacks: list[str]
) -> None:
    edits: list[dict[str, Any]] = []
    if name:
        edits += [
            {"path": "machine.gpus[*].name", "value": name},
            {"path": "machine.gpus[*].pci_id", "value": None},
        ]
    if why:
        edits.append({"path": "machine.gpus[*].memory_bytes", "remove": True, "why": why})
    if ecc is not None:
        edits.append({"path": "machine.gpus[*].ecc_enabled", "value": ecc})
        edits.append({"path": "readings.gpus[*].ecc", "remove": True, "why": "not supported"})
    found = diagnosed(edited(base("hgx-h200-4gpu-live"), edits))
    # The bus and the other GPUs still tell of another model, which is told as well.
    assert [lack.id for lack in found.lacking if lack.id != SENSE] == lacks


@pytest.mark.parametrize(
    ("unread", "value", "lacks"),
    [
        ({"uuid": "not supported"}, {}, ["driver"]),
        ({"nvlinks": "no permission"}, {}, ["links"]),
        ({"nvlinks": "no permission"}, {"mig_enabled": True}, []),
        # Without links, a fabric that the GPU has joined shows them, and no other fabric.
        ({"nvlinks[3].active": "x"}, {}, []),
        ({"nvlinks[3].active": "x", "fabric": "x"}, {}, ["links"]),
        ({"nvlinks[3].active": "x"}, {"fabric.state": "in progress"}, ["links"]),
    ],
)
def test_each_kind_of_evidence_is_looked_for(
    unread: dict[str, str], value: dict[str, Any], lacks: list[str]
) -> None:
    at = "machine.gpus[0]"
    edits: list[dict[str, Any]] = [
        {"path": f"{at}.{field}", "remove": True, "why": why} for field, why in unread.items()
    ]
    edits += [{"path": f"{at}.{field}", "value": given} for field, given in value.items()]
    found = diagnosed(edited(base("hgx-h200-4gpu-live"), edits))
    assert [lack.id for lack in found.lacking] == lacks
    assert all(len(lack.devices) == 1 for lack in found.lacking)


@pytest.mark.parametrize(
    ("why", "hive", "lacks"),
    [
        (None, None, []),  # nothing says that it has links
        ("no permission", None, ["links"]),
        (None, "7", ["links"]),
        ("not supported", "7", []),
        ("Invalid Argument", "7", []),
    ],
)
def test_links_of_an_unknown_model_are_missed_where_something_shows_them(
    why: str | None, hive: str | None, lacks: list[str]
) -> None:
    found = []
    for gpu in base("hgx-h200-4gpu-live").machine.gpus:
        gaps = () if why is None else (Gap("nvlinks", why),)
        bare = {"name": "NVIDIA Unheard Of", "pci_id": None, "nvlinks": (), "fabric": None}
        found.append(msgspec.structs.replace(gpu, **bare, xgmi_hive=hive, gaps=gaps))
    whole = base("hgx-h200-4gpu-live")
    machine = msgspec.structs.replace(whole.machine, gpus=tuple(found), pairs=())
    said = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert [lack.id for lack in said.lacking if lack.id != SENSE] == lacks
