"""What the kernel's log tells is found, as harmful as it is, wherever its lines stand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.diagnosis.rules.host.kernel_log import RULES
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.hardware.faults.catalogue import faults
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding
from gputop.topology.model.kernel_event import HEARD, KernelEvent, KernelSource
from gputop.topology.model.machine import NvLink
from gputop.topology.model.severity import BROKEN, NOTICE, Sureness, Verdict
from gputop.topology.model.snapshot import NodeSnapshot, SourceState
from gputop.topology.model.surroundings import Software
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.sources.linux.kernel_lines import read_lines
from gputop.topology.toml import tomllib
from tests.support.snapshots import demo_node

GPU = "NVRM: Xid (PCI:0000:9b:00)"
RESET = "0x1 (GPU Reset Required)"
TEXTS: dict[str, dict[str, Any]] = {
    text["name"]: text
    for text in tomllib.loads(Path(__file__).with_name("kernel_texts.toml").read_text())["text"]
}


def lines_of(name: str) -> str:
    text = TEXTS[name]
    return (str(text["text"]).strip("\n") + "\n") * int(text.get("repeat", 1))


def checked(snapshot: NodeSnapshot) -> Diagnosis:
    return diagnose(Case(Node(snapshot)))


def harms(findings: Any) -> dict[str, str]:
    """The worst severity of each id."""
    found: dict[str, str] = {}
    for finding in findings:
        found.setdefault(finding.id, str(finding.severity))
    return found


def told_by(findings: Any) -> dict[str, str]:
    return {ident: harm for ident, harm in harms(findings).items() if ident != "nothing-to-examine"}


def read(text: str) -> ReadLog:
    log = read_log(io.BytesIO(text.encode()), signs=known_signs(), outputs=True)
    return examine(log, None)


@pytest.mark.parametrize("name", [name for name in TEXTS if TEXTS[name]["found"]])
def test_a_text_gives_its_findings_and_exit_code(name: str, tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text(lines_of(name))
    found = checked(load([str(path)]).snapshot)
    assert told_by(found.findings) == TEXTS[name]["found"]
    assert found.verdict.exit_code == TEXTS[name]["exit"]


@pytest.mark.parametrize("name", [name for name in TEXTS if TEXTS[name]["found"]])
def test_a_log_tells_the_same_with_the_lines(name: str) -> None:
    text = lines_of(name)
    kernel = {ident for found in TEXTS.values() for ident in found["found"]}
    findings = [finding for finding in read(text).findings if finding.id in kernel]
    assert harms(findings) == TEXTS[name]["found"]
    rows = text.splitlines()
    for finding in findings:
        quoted = [fact for fact in finding.evidence if fact.line is not None]
        assert quoted
        for fact in quoted:
            assert " ".join(rows[(fact.line or 0) - 1].split())[:300] == fact.value


def printed() -> dict[str, str]:
    """A line for each rule."""
    lines = {
        "nvswitch-fatal": "SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvswitch-error": "SXid (PCI:0000:c1:00.0): 11004, Non-fatal, Link 30 invalid ACL",
    }
    for row in faults(KernelSource.XID).values():
        lines.setdefault(row.rule, f"NVRM: Xid (PCI:0000:9b:00): {row.code}, {row.name}")
    for row in faults(KernelSource.LINE).values():
        if row.shown and not row.only_adds:
            lines.setdefault(row.rule, row.shown[0])
    lines["xid-recovery"] = f"{GPU}: 154, GPU recovery action changed from 0x0 (None) to {RESET}"
    return lines


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_line_makes_its_rule_fire_and_nothing_else(rule: str) -> None:
    healthy = demo_node("hgx-h100-8").snapshot
    events = read_lines([printed()[rule]]).kernel_events
    found = checked(msgspec.structs.replace(healthy, kernel_events=events)).findings
    assert set(harms(found)) - set(harms(checked(healthy).findings)) == {rule}
    (finding,) = (one for one in found if one.id == rule)
    assert finding.fix or not finding.severity.counts
    assert finding.impact
    assert finding.sources


def test_what_nvml_told_alone_is_no_log_that_was_read() -> None:
    healthy = demo_node("hgx-h100-8").snapshot
    states = tuple(state for state in healthy.states if state.source != "kernel_log")
    told = KernelEvent(
        kind=KernelSource.XID,
        code="79",
        device=healthy.machine.gpus[3].address,
        text=f"{HEARD}Xid 79",
    )
    heard = checked(msgspec.structs.replace(healthy, states=states, kernel_events=(told,)))
    mine = {rule.id for rule in RULES}
    found = {finding.id for finding in heard.findings} & mine
    assert found == mine & set(heard.examined) == {"xid-bus"}


def test_a_log_without_faults_is_examined_and_an_unread_one_is_not_missed() -> None:
    healthy = demo_node("hgx-h100-8").snapshot
    states = (*healthy.states, SourceState(source="kernel_log", age_seconds=1.0))
    looked = checked(msgspec.structs.replace(healthy, states=states))
    assert {rule.id for rule in RULES} <= set(looked.examined)
    unread = checked(healthy)
    assert not {rule.id for rule in RULES} & {*unread.examined, *unread.unexamined}
    assert looked.verdict is unread.verdict


def test_a_healthy_start_is_no_health(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text(lines_of("a healthy start"))
    loaded = load([str(path)])
    assert not loaded.snapshot.kernel_events
    assert checked(loaded.snapshot).verdict is Verdict.CANNOT_TELL
    assert not read(lines_of("a healthy start")).findings


def test_hardware_comes_before_what_the_program_says_of_it() -> None:
    text = (
        "node-a:77:99 [0] enqueue.cc:99 NCCL WARN Cuda failure 'unspecified launch failure'\n"
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"
        "[ 9.1] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    )
    found = read(text).findings
    assert found[0].id == "xid-bus"
    assert not {"reported-by-framework", "cuda-other"} & {finding.id for finding in found}


def test_nonfatal_words_of_a_link_stop_no_job() -> None:
    (finding,) = read(lines_of("NVLink 5: Nonfatal words of one link")).findings
    assert finding.severity is NOTICE
    assert "reset" not in "".join(step.text for step in finding.fix[:1])
    assert not any("--gpu-reset" in step.command for step in finding.fix)


def shown(snapshot: NodeSnapshot, *lines: str, live: bool = False) -> NodeSnapshot:
    """The node with lines of its log, read live or from texts beside it."""
    return msgspec.structs.replace(
        snapshot,
        kernel_events=read_lines(lines).kernel_events or (),
        source=("live",) if live else ("dmesg.txt",),
    )


def of(snapshot: NodeSnapshot, ident: str) -> Finding:
    return next(one for one in checked(snapshot).findings if one.id == ident)


def test_a_link_is_named_with_both_ends() -> None:
    node = demo_node("hgx-h100-8").snapshot
    gpu = node.machine.gpus[3]
    link = next(link for link in gpu.nvlinks if link.remote_address is not None)
    switch = link.remote_address
    xid = (
        f"NVRM: Xid (PCI:{gpu.address[:-2]}): 74, NVLink: fatal error detected on link {link.link}"
    )
    finding = of(shown(node, xid), "xid-nvlink")
    assert finding.title.startswith(f"GPU3, NVLink {link.link} (to ")
    assert finding.devices == (gpu.address,)
    if link.remote_link is None:
        ended: NvLink = msgspec.structs.replace(link, remote_link=5)
        links = tuple(ended if one is link else one for one in gpu.nvlinks)
        gpus = tuple(
            msgspec.structs.replace(one, nvlinks=links) if one is gpu else one
            for one in node.machine.gpus
        )
        machine = msgspec.structs.replace(node.machine, gpus=gpus)
        node, link = msgspec.structs.replace(node, machine=machine), ended
    sxid = f"nvidia-nvswitch0: SXid (PCI:{switch}): 20034, Fatal, Link {link.remote_link} LTSSM"
    told = of(shown(node, sxid), "nvswitch-fatal").title
    assert f"port {link.remote_link} (to NVLink {link.link} of GPU3)" in told


def test_a_driver_that_asks_for_nothing_speaks_against_the_line() -> None:
    node = demo_node("hgx-h100-8").snapshot
    gpu = node.machine.gpus[0]
    line = f"NVRM: Xid (PCI:{gpu.address[:-2]}): 119, pid=1, name=x, Timeout waiting for RPC"
    asked = [
        msgspec.structs.replace(reading, recovery_action="none") for reading in node.readings.gpus
    ]
    readings = msgspec.structs.replace(node.readings, gpus=tuple(asked))
    well = msgspec.structs.replace(node, readings=readings)
    assert of(shown(well, line), "xid-gsp").severity is BROKEN
    finding = of(shown(well, line, live=True), "xid-gsp")
    assert finding.severity is NOTICE
    assert "the driver asks for nothing now" in finding.title
    assert checked(shown(well, line, live=True)).verdict is checked(node).verdict


def test_an_error_of_a_disk_harms_no_gpu() -> None:
    node = demo_node("pcie-l40s-8").snapshot
    gpus = {gpu.address for gpu in node.machine.gpus}
    case = Case(Node(node))
    nics = {nic.address for nic in node.machine.rdma}
    nics |= {interface.address for interface in node.machine.interfaces}
    taken = {up for one in (*gpus, *nics) if one for up in (one, *case.above(one))}
    bus = "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"
    other = next((one.address for one in node.machine.pci if one.address not in taken), None)
    if other is not None:
        assert of(shown(node, f"nvme {other}: {bus}"), "pcie-uncorrected").severity is NOTICE
    above = min(case.above(min(gpus)))
    assert of(shown(node, f"pcieport {above}: {bus}"), "pcie-uncorrected").severity is BROKEN


def test_an_old_driver_is_asked_for_its_form_of_the_words() -> None:
    node = demo_node("hgx-h100-8").snapshot
    line = (
        f"NVRM: Xid (PCI:{node.machine.gpus[0].address[:-2]}): 145, RLW_REMAP Nonfatal XC1 i0 "
        "Link 10 (0x00000082 0x00000004 0x00000000)"
    )
    for driver, act in (("570.86.15", "Start the program again"), ("580.65.06", "Nothing at once")):
        software = Software(nvidia_driver=driver)
        machine = msgspec.structs.replace(node.machine, software=software)
        finding = of(shown(msgspec.structs.replace(node, machine=machine), line), "xid-nvlink")
        assert finding.fix[0].text.startswith(act)


def test_events_are_kept_in_a_snapshot_and_only_there_are_in_it() -> None:
    node = demo_node("hgx-h100-8").snapshot
    assert b"kernel_events" not in msgspec.json.encode(node)
    line = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    kept = msgspec.json.decode(msgspec.json.encode(shown(node, line)), type=NodeSnapshot)
    assert kept.kernel_events == shown(node, line).kernel_events
    assert json.loads(msgspec.json.encode(kept))["kernel_events"][0]["code"] == "79"


def test_the_first_three_programs_of_a_fault_are_named() -> None:
    node = demo_node("hgx-h100-8").snapshot
    lines = [f"{GPU}: 31, pid={pid}, name=train{pid}, Ch 00000008" for pid in range(1, 5)]
    (proof, *_) = of(shown(node, *lines), "xid-program").evidence
    assert "train1 (1), train2 (2), train3 (3), 4 lines" in proof.what


def test_a_gpu_that_answers_beside_its_loss_is_lost_no_more_or_at_another_time() -> None:
    node = demo_node("hgx-h100-8").snapshot
    lost = f"NVRM: Xid (PCI:{node.machine.gpus[3].address[:-2]}): 79, GPU has fallen off the bus."
    # Drivers before 565 do not say what they ask for.
    gpus = [msgspec.structs.replace(gpu, recovery_action=None) for gpu in node.readings.gpus]
    silent = msgspec.structs.replace(node.readings, gpus=tuple(gpus))
    now = of(shown(msgspec.structs.replace(node, readings=silent), lost, live=True), "xid-bus")
    assert now.severity is NOTICE
    assert "answers the driver again" in now.title
    pasted = of(msgspec.structs.replace(shown(node, lost), states=()), "xid-bus")
    assert pasted.sureness == Sureness.POSSIBLE
    assert "which of the two is older" in pasted.title
    (alone,) = read(lost).findings
    assert alone.id == "xid-bus"
    assert alone.sureness != Sureness.POSSIBLE
    assert "older" not in alone.title
