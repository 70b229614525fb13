"""A redacted snapshot names nobody, and says the same otherwise."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.readings import ProcessReading, Readings
from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot, Problem, encode
from gputop.topology.model.surroundings import Host, Interface, Software
from gputop.topology.sources.linux.kernel_lines import read_lines

SNAPSHOT = NodeSnapshot(
    taken_at=0.0,
    machine=Machine(
        host=Host(hostname="node17.lab.example", boot_id="6e9c3ad6-89cd-4f27-ad0d-9d4c2f8f1e11"),
        gpus=(
            Gpu(
                address="0000:1b:00.0",
                vendor="nvidia",
                serial="1653923004567",
                uuid="GPU-8f3c1d2e-aaaa-bbbb-cccc-0123456789ab",
            ),
        ),
        interfaces=(
            Interface(name="eth0", mac="b8:ce:f6:03:aa:0f", ips=("10.1.2.3/24", "fe80::1")),
        ),
        software=Software(torch_path="/home/bob/venv/lib/torch", nvidia_driver="580.159.04"),
    ),
    readings=Readings(
        processes=(ProcessReading(pid=7, user="bob", arguments=("--key", "s3cret")),)
    ),
    environment=(
        EnvironmentVariable(name="NCCL_P2P_LEVEL", value="PXB", origin="environment"),
        EnvironmentVariable(name="NCCL_TOPO_FILE", value="/home/bob/t.xml", origin="environment"),
        EnvironmentVariable(name="NCCL_COMM_ID", value="node17:4000", origin="environment"),
    ),
    problems=(
        Problem(source="nvml", text="node17.lab.example: GPU 1653923004567 by bob at 10.1.2.3"),
    ),
)
SECRETS = ("node17", "1653923004567", "8f3c1d2e", "b8:ce", "10.1.2.3", "bob", "s3cret", "6e9c3ad6")


def test_nothing_that_identifies_remains() -> None:
    text = encode(redacted(SNAPSHOT)).decode()
    assert [secret for secret in SECRETS if secret in text] == []


def test_what_does_not_identify_remains() -> None:
    snapshot = redacted(SNAPSHOT)
    assert snapshot.machine.gpus[0].address == "0000:1b:00.0"
    assert snapshot.machine.software is not None
    assert snapshot.machine.software.nvidia_driver == "580.159.04"
    assert snapshot.environment[0].value == "PXB"


def test_equal_values_stay_equal() -> None:
    snapshot = redacted(SNAPSHOT)
    assert snapshot.machine.gpus[0].serial is not None
    assert snapshot.machine.gpus[0].serial in snapshot.problems[0].text
    assert redacted(snapshot) is not None


def test_other_ways_to_write_an_identity_go_too() -> None:
    sentence = "node17 (node17.lab.example) enxb8cef603aa0f port 0x0c42a10300f01234 of 0000:1b:00.0"
    short = Host(hostname="gpunode3", kernel="Linux gpunode3.corp.example 6.8.0-1")
    for host in (Host(hostname="node17.lab.example"), short):
        snapshot = NodeSnapshot(
            taken_at=0.0,
            machine=Machine(host=host, interfaces=(Interface(name="enxb8cef603aa0f"),)),
            problems=(Problem(source="x", text=sentence.replace("node17", "gpunode3")),)
            if host is short
            else (Problem(source="x", text=sentence),),
        )
        text = encode(redacted(snapshot)).decode()
        gone = ("node17", "gpunode3", "example", "b8cef603aa0f", "0c42a10300f01234")
        assert [secret for secret in gone if secret in text] == []
        assert "0000:1b:00.0" in text
        assert host is not short or "6.8.0-1" in text


def test_a_process_s_job_variables_and_meeting_place_name_nobody() -> None:
    secrets = {
        "job": "kubernetes bobs-llm-0",
        "parent_command": "bobs-launcher",
        "hostname": "bobs-llm-0",
        "rendezvous": "bobs-llm-0.svc:29500",
        "variables": (
            ("NCCL_P2P_LEVEL", "PXB"),
            ("NCCL_TOPO_FILE", "/home/bob/t.xml"),
            ("NCCL_HOSTID", "bobs-node"),
        ),
    }
    one = ProcessReading(pid=7, **secrets)  # type: ignore[arg-type]
    two = ProcessReading(pid=8, rendezvous="localhost:1", job="slurm 1234.0")
    three = ProcessReading(pid=9, rendezvous="10.9.8.7:29500", job="slurm 1234.0")
    processes = (one, two, three)
    snapshot = redacted(NodeSnapshot(taken_at=0.0, readings=Readings(processes=processes)))
    text = encode(snapshot).decode()
    assert "bob" not in text
    assert "1234" not in text
    assert "10.9.8.7" not in text
    first, second, third = snapshot.readings.processes
    assert first.job is not None
    assert first.job.startswith("kubernetes ")
    assert second.job == third.job
    assert second.rendezvous == "localhost:1"
    assert third.rendezvous is not None
    assert third.rendezvous.endswith(":29500")
    assert first.variables is not None
    assert dict(first.variables)["NCCL_P2P_LEVEL"] == "PXB"
    assert [process.pid for process in snapshot.readings.processes] == [7, 8, 9]


def test_a_hive_keeps_its_members_but_not_its_number() -> None:
    gpus = tuple(
        Gpu(address=f"0000:0{n}:00.0", vendor="amd", xgmi_hive="12609507387757274807")
        for n in range(2)
    )
    problem = Problem(source="kfd", text="xGMI hive is 12609507387757274807 by KFD, 5 by amdsmi")
    snapshot = redacted(NodeSnapshot(taken_at=0.0, machine=Machine(gpus=gpus), problems=(problem,)))
    assert "12609507387757274807" not in encode(snapshot).decode()
    assert {gpu.xgmi_hive for gpu in snapshot.machine.gpus} == {"hive-1"}


@pytest.mark.timeout(60)
def test_thousands_of_users_take_no_minutes() -> None:
    processes = tuple(
        ProcessReading(
            pid=number,
            user=f"user{number}",
            cpu_affinity=f"0-{number}",
            variables=(("NCCL_IB_HCA", f"of-user{number}"),),
        )
        for number in range(12_000)
    )
    snapshot = redacted(NodeSnapshot(taken_at=0.0, readings=Readings(processes=processes)))
    last = snapshot.readings.processes[-1]
    assert last.user == "user-12000"
    assert last.variables == (("NCCL_IB_HCA", "of-user-12000"),)


def test_programs_in_lines_of_the_kernel_are_not_named() -> None:
    lines = (
        "NVRM: Xid (PCI:0000:1b:00): 31, pid=77, name=s3cret_model, MMU Fault: ENGINE GRAPHICS",
        "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
        "INFO: task s3cret_model:4123 blocked for more than 120 seconds.",
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:158 vmid:8 pasid:32769, "
        "for process s3cret_model pid 4242 thread s3cret_model pid 4242)",
    )
    events = read_lines(lines).kernel_events
    text = encode(redacted(msgspec.structs.replace(SNAPSHOT, kernel_events=events))).decode()
    assert "s3cret" not in text
    assert "name=command-" in text
    assert "0000:1b:00.0" in text
    assert "name=<unknown>" in text
