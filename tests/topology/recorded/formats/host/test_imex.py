"""`nvidia-imex-ctl -N` in the forms that public documents print, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.nvlink.fabric import DOMAIN
from gputop.topology.expectation.domains import domain_of
from gputop.topology.model.format import FormatError
from gputop.topology.model.severity import BROKEN, NOTICE, Severity
from gputop.topology.model.surroundings import ImexDomain
from gputop.topology.nccl.hosts.equal_hosts import predict_hosts
from gputop.topology.nccl.settings import Settings
from gputop.topology.node import Node
from gputop.topology.recorded.formats.host.imex import FORMAT
from tests.support.rule_cases import base

LEGEND = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
D - Disconnected - Connection was lost, and clean up has been triggreed.
A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.
!V! - Version mismatch, communication disabled.
!M! - Node map mismatch, communication disabled.
C - Connected - Ready for operation
"""
UP = """
5/12/2025 06:08:10.580
Nodes:
Node #0   - 172.31.48.81    - READY                - Version: 570.172
Node #1   * 172.31.48.98 *  - READY                - Version: 570.172

 Nodes From\\To  0   1
       0        C   C
       1        C   C
Domain State: UP
"""
"""As AWS ParallelCluster's document prints two of 18 (the version of the asked host with stars)."""
OLD = """3/25/2025 10:39:43.659
Nodes:
Node #0   - 10.136.206.48   - READY

 Nodes From\\To  0
       0        C
Domain State: UP
"""
"""As NVIDIA/k8s-dra-driver-gpu's report prints it, of version 565."""
HOLE = """
Nodes:
Node #0   - 1.1.1.1     - READY         - Version: 580.95.09   - Hostname: node-01
Node #1   - 1.1.1.2     - UNAVAILABLE   - Version:             - Hostname: node-02
Node #2   * 1.1.1.3 *   - READY         - Version: 580.95.09   - Hostname: node-03

 Nodes From\\To  0   1   2
       0        C   N   C
       1        I   I   I
       2        C   N   C
Domain State: DEGRADED
"""
MISMATCH = HOLE.replace("UNAVAILABLE", "READY      ").replace(
    "       1        I   I   I", "       1        !V! C   !V!"
)


def domain(text: str) -> ImexDomain:
    data = f"{LEGEND}{text}".encode()
    assert FORMAT.recognises(data, Path("x"))
    host = FORMAT.parse(data, Path("x")).host
    assert host is not None
    assert host.imex_domain is not None
    return host.imex_domain


def node(text: str) -> Node:
    snapshot = base("demo gb200-nvl72-tray")
    host = snapshot.machine.host
    assert host is not None
    host = msgspec.structs.replace(host, imex_domain=domain(text))
    machine = msgspec.structs.replace(snapshot.machine, host=host)
    return Node(msgspec.structs.replace(snapshot, machine=machine))


def test_hosts_states_and_connections_are_read() -> None:
    up, old, hole = domain(UP), domain(OLD), domain(HOLE)
    assert (up.state, len(up.nodes), up.unconnected) == ("UP", 2, ())
    assert [(one.ip, one.version, one.asked) for one in up.nodes] == [
        ("172.31.48.81", "570.172", False),
        ("172.31.48.98", "570.172", True),
    ]
    assert (old.nodes[0].state, old.nodes[0].version) == ("READY", None)
    assert [one.label for one in hole.unready] == ["node-02"]
    assert hole.nodes[1].version is None
    assert hole.apart == ()
    assert (1, 0, "I") in hole.unconnected


def test_the_legend_alone_is_none() -> None:
    with pytest.raises(FormatError):
        FORMAT.parse(f"{LEGEND}\nNodes:\n".encode(), Path("x"))


@pytest.mark.parametrize(
    ("text", "severity", "title"),
    [
        (UP, None, ""),
        (OLD, None, ""),
        (HOLE, NOTICE, "1 of 3 hosts of the IMEX domain do not answer: node-02"),
        (
            MISMATCH,
            BROKEN,
            "hosts of the IMEX domain are ready and not connected: node-01 and node-02 (!V!); "
            "node-02 and node-03 (!V!)",
        ),
        (
            HOLE.replace("1.1.1.3 *   - READY", "1.1.1.3 *   - NOT_CONNECTED"),
            BROKEN,
            "the IMEX daemon of this host is not ready (NOT_CONNECTED)",
        ),
    ],
)
def test_what_is_proven_is_found(text: str, severity: Severity | None, title: str) -> None:
    found = DOMAIN.findings(Case(node(text)))
    assert [(one.severity, one.title) for one in found] == (
        [] if severity is None else [(severity, title)]
    )


def test_a_job_over_the_rack_is_told_who_is_missing() -> None:
    for text, fault, note in ((HOLE, "", "node-02; a job over one"), (MISMATCH, "(!V!, by", "")):
        snapshot = node(text).snapshot
        found = domain_of(snapshot, Settings.of(snapshot), predict_hosts(snapshot, hosts=16))
        assert found is not None
        assert any(fault in one for one in found.faults) == bool(fault)
        assert any(note in one for one in found.notes)
