"""The rules: sick machines give exactly what is expected, healthy ones nothing above a notice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import FAILED, LACKING, NOTHING, Diagnosis, diagnose, load
from gputop.topology.diagnosis.examples import examples
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.hardware.faults.catalogue import groups
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, SLOW, Severity
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo

from ...support.rule_cases import SickCase, base, base_ids, cases, diagnosed, ids
from ...support.whole import GROWING, whole

UNHEARD = ("diagnosed",)
HEALTHY = ["hgx-h200-4gpu-live"] + [
    f"demo {name}" for name in demo.names() if not name.startswith("sick")
]
VERDICT_EXITS = {"healthy": 0, "slow": 1, "broken": 2, "cannot tell": 3}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_sick_machine_gives_exactly_what_is_wrong_with_it(
    case: SickCase, snapshot: SnapshotAssertion
) -> None:
    found = diagnosed(case.snapshot, earlier=case.earlier, reference=case.reference)
    assert ids(found) == case.whole
    assert VERDICT_EXITS[found.verdict] == case.exit
    check_findings(found)
    new = [finding for finding in found.findings if finding.id in case.expect]
    check_examples(case, new)
    assert whole(new, without=("disproof", "sources")) == snapshot


def check_examples(case: SickCase, new: Iterable[Finding]) -> None:
    """The examples of `gputop rule` are current: `python -m tests.support.rule_examples`."""
    told = {(finding.id, finding.title, finding.impact) for finding in new}
    for finding in new:
        example = examples().get(finding.id)
        if example is None:
            continue  # test_examples.py says so
        assert finding.severity in example.severities
        if example.machine == case.title:
            assert (finding.id, example.title, example.consequence) in told


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_has_nothing_above_a_notice(
    name: str, snapshot: SnapshotAssertion
) -> None:
    found = diagnosed(base(name))
    loud = [
        finding.title
        for finding in found.findings
        if finding.severity in (BROKEN, SLOW, CANNOT_TELL)
    ]
    assert not loud
    assert found.verdict == "healthy"
    check_findings(found)
    assert whole(found, without=("disproof", "sources", *GROWING)) == snapshot


def check_findings(found: Diagnosis) -> None:
    """Every finding says what a person needs."""
    rules = {rule.id: rule for rule in load()}
    assert not set(found.examined) & set(found.unexamined)
    for finding in found.findings:
        assert finding.severity in set(Severity)
        if finding.id == LACKING:
            continue  # no rule: all rules together are its evidence
        assert finding.id in rules, finding.evidence
        assert finding.id in found.examined
        assert all(
            (
                finding.title,
                finding.disproof,
                finding.impact,
                finding.sources,
                finding.evidence,
            )
        )
        assert all(e.what and e.value and e.source for e in finding.evidence)
        if finding.severity in (BROKEN, SLOW):
            assert finding.fix, f"{finding.id}: nothing to do about it"
    order = [finding.severity.order for finding in found.findings]
    assert order == sorted(order)


def test_rules_are_named_once_and_completely() -> None:
    rules = load()
    names = [rule.id for rule in rules]
    assert len(names) == len(set(names))
    for rule in rules:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
        assert re.fullmatch(r"(D\d\d)?", rule.family)
        assert all((rule.title, rule.evidence, rule.disproof, rule.sources))
        assert set(rule.implied_by) <= set(names)
        assert rule.id not in rule.implied_by


def test_flipping_a_rule_s_evidence_makes_it_fire_and_nothing_else() -> None:
    # Those of the kernel's log have their lines in rules/host/test_kernel_log.py.
    of_kernel = {group.id for group in groups()}
    alone: dict[str, list[str]] = {rule.id: [] for rule in load() if rule.id not in of_kernel}
    for case in cases():
        new = set(case.expect) - set(base_ids(case.base))
        if len(new) == 1:
            alone[new.pop()].append(case.name)
    without = [name for name, found in alone.items() if not found]
    assert not without, (
        f"no case in tests/rule_cases adds the finding of this rule alone: {without}"
    )


def test_a_rule_that_raises_is_reported() -> None:
    def bad(case: Case) -> Iterable[Finding]:
        raise ZeroDivisionError("by purpose")

    broken = Rule(id="bad", title="x", evidence="x", disproof="x", sources=("a test",), check=bad)
    case = Case(Node(base("hgx-h200-4gpu-live")))
    found = diagnose(case, (broken, *load()))
    assert found.findings[0].id == FAILED
    assert "rule bad failed" in found.findings[0].title
    assert "by purpose" in found.findings[0].evidence[0].value
    assert found.verdict == "cannot tell"
    assert "bad" not in found.examined


def test_without_a_gpu_nothing_is_healthy() -> None:
    found = diagnose(Case(Node(NodeSnapshot(taken_at=0.0))))
    assert [finding.id for finding in found.findings] == [NOTHING]
    assert found.verdict == "cannot tell"
    assert found.examined == ()


def test_gpus_of_which_nothing_is_known_are_not_healthy() -> None:
    bare = NodeSnapshot(
        taken_at=0.0, machine=Machine(gpus=(Gpu(address="0000:01:00.0", vendor="nvidia"),))
    )
    unread = Rule(
        id="unread", title="x", evidence="x", disproof="x", sources=("a test",),
        check=lambda case: None,
    )  # fmt: skip
    found = diagnose(Case(Node(bare)), (unread,))
    assert [finding.id for finding in found.findings] == [NOTHING]
    assert "nothing is known" in found.findings[0].title
    assert found.verdict == "cannot tell"


def test_what_a_site_silences_is_shown_as_silenced() -> None:
    sick = next(case for case in cases() if case.name == "bar1-256m").snapshot
    found = diagnosed(sick, policy=Policy(ignored={"bar1-small": "old boards"}))
    assert "bar1-small" not in ids(found)
    assert [(silenced.finding.id, silenced.reason) for silenced in found.silenced] == [
        ("bar1-small", "old boards")
    ]


def test_a_site_sets_limits_of_its_own() -> None:
    sick = next(case for case in cases() if case.name == "bar1-256m").snapshot
    policy = Policy(thresholds={"bar1-small": {"minimum_share": 0.0}})
    assert "bar1-small" not in ids(diagnosed(sick, policy=policy))


def test_chosen_gpus_alone_count() -> None:
    sick = next(case for case in cases() if case.name == "bar1-256m").snapshot
    others = [gpu.address for gpu in sick.machine.gpus[2:]]
    assert "bar1-small" not in ids(diagnosed(sick, gpus=others))


def test_an_empty_record_raises_no_rule() -> None:
    whole = base("hgx-h200-4gpu-live")
    bare = msgspec.structs.replace(
        whole,
        machine=msgspec.structs.replace(
            whole.machine,
            host=None,
            software=None,
            pci=(),
            pairs=(),
            interfaces=(),
            rdma=(),
            gpus=tuple(
                type(gpu)(address=gpu.address, vendor=gpu.vendor) for gpu in whole.machine.gpus
            ),
        ),
        readings=type(whole.readings)(),
        environment=(),
    )
    found = diagnosed(bare)
    assert FAILED not in ids(found)
    assert not [finding for finding in found.findings if finding.severity in (BROKEN, SLOW)]


@pytest.mark.timing
def test_a_rack_of_72_is_examined_in_time() -> None:
    whole = base("demo hgx-h100-8")
    gpus = tuple(
        msgspec.structs.replace(gpu, address=f"{block:04x}:{gpu.address[5:]}", uuid=f"{block}-{i}")
        for block in range(9)
        for i, gpu in enumerate(whole.machine.gpus)
    )
    report = Node(
        msgspec.structs.replace(whole, machine=msgspec.structs.replace(whole.machine, gpus=gpus))
    )
    case = Case(report)
    load()
    _ = report.graph
    start = time.process_time()  # others may use this machine too
    found = diagnose(case)
    elapsed = time.process_time() - start
    assert found.examined
    assert elapsed < 0.3
