"""topology/diagnosis/examples.toml, made of what the rules say of the sick machines of the tests.

`python -m tests.support.rule_examples` writes it; then docs/rules.md is made anew too.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from gputop.checking.measure import Measured
from gputop.checking.runs import GONE, HANGS, NOT_MEASURED, all_rules, run_rules
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.examples import PATH, RuleExample
from gputop.topology.hardware.faults.catalogue import faults
from gputop.topology.model.finding import Finding
from gputop.topology.model.kernel_event import KernelSource
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import Severity
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.toml import tomllib

from .places import TESTS
from .rule_cases import base, base_ids, cases, diagnosed
from .runs import run_of

TEXTS = TESTS / "topology/diagnosis/rules/host/kernel_texts.toml"
MOST_PROOFS, LONGEST = 3, 160
HEAD = "# Written by `python -m tests.support.rule_examples`. examples.py explains the fields.\n"
Told = tuple[str, Finding, bool]
"""What is the matter, what a rule said, and whether no other rule said something."""


def of_cases() -> Iterator[Told]:
    """What the sick machines of rule_cases give."""
    for case in cases():
        said = diagnosed(case.snapshot, earlier=case.earlier, reference=case.reference)
        new = set(case.expect) - set(base_ids(case.base))
        for finding in said.findings:
            if finding.id in new:
                yield case.title, finding, len(new) == 1


def of_kernel_texts(names: Container[str] | None = None) -> Iterator[Told]:
    """What lines of the kernel's log give: all, or those of these names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dmesg.txt"
        for text in (*tomllib.loads(TEXTS.read_text())["text"], *_of_catalogue()):
            if names is not None and text["name"] not in names:
                continue
            lines = (str(text["text"]).strip("\n") + "\n") * int(text.get("repeat", 1))
            path.write_text(lines)
            for finding in diagnose(Case(Node(load([str(path)]).snapshot))).findings:
                if finding.id in text["found"]:
                    yield text["name"], finding, len(text["found"]) == 1 and "also" not in text


def _of_catalogue() -> Iterator[dict[str, Any]]:
    """The lines of the catalogue itself, for rules that no text is about."""
    numbered = (fault for fault in faults("xid").values() if not fault.words)
    head = "NVRM: Xid (PCI:0000:9b:00)"
    lines = [(fault, f"{head}: {fault.code}, pid=4242, name=python3") for fault in numbered]
    lines += [(fault, line) for fault in faults(KernelSource.LINE).values() for line in fault.shown]
    for fault, line in lines:
        yield {"name": fault.says, "text": f"[ 100.0] {line}", "found": [fault.rule], "also": True}


def of_runs() -> Iterator[Told]:
    """What a run of probes gives."""
    node = base("hgx-h200-4gpu-live")
    gpus = tuple(gpu.address for gpu in node.machine.gpus)
    hung = run_of("collectives", "timed-out", "gave up after 60 s")
    lost = ((gpus[2], "GPU2"),)
    made = (
        (HANGS, "a collective does not end", Measured(runs=(hung,), gpus=gpus)),
        (GONE, "a GPU is gone after measuring", Measured(runs=(hung,), gpus=gpus, gone=lost)),
        (
            NOT_MEASURED,
            "somebody computes on one GPU",
            Measured(left_out=((gpus[0], "busy: a process uses it"),), gpus=gpus[1:]),
        ),
        (
            NOT_MEASURED,
            "somebody computes on every GPU",
            Measured(left_out=tuple((gpu, "busy: a process uses it") for gpu in gpus)),
        ),
    )
    for ident, what, measured in made:
        for finding in diagnose(Case(Node(node)), run_rules(measured)).findings:
            if finding.id == ident:
                yield what, finding, True


def chosen(told: Iterable[Told]) -> dict[str, RuleExample]:
    """One example for each rule: the worst that it says, of a machine with no other fault."""
    by_rule: dict[str, list[Told]] = defaultdict(list)
    for one in told:
        by_rule[one[1].id].append(one)
    known = (rule.id for rule in all_rules())
    return {name: _example(by_rule[name]) for name in known if by_rule[name]}


def _example(told: list[Told]) -> RuleExample:
    def rank(one: Told) -> tuple[bool, bool, int, str]:
        _, finding, alone = one
        return not alone, SIMULATED in finding.title, finding.severity.order, one[0]

    machine, finding, _ = min(told, key=rank)
    found = {finding.severity for _, finding, _ in told}
    facts = [fact for fact in finding.evidence if len(fact.value) <= LONGEST][:MOST_PROOFS]
    facts = facts or list(finding.evidence[:1])
    return RuleExample(
        machine=machine,
        severities=tuple(each for each in Severity if each in found),
        severity=finding.severity,
        title=finding.title,
        consequence=finding.impact,
        evidence=tuple(facts),
        more=len(finding.evidence) - len(facts),
    )


def document(found: dict[str, RuleExample]) -> str:
    """The whole file."""
    lines = [HEAD]
    for name, one in found.items():
        lines.append(f"[{name}]")
        lines.append(f"machine = {_text(one.machine)}")
        lines.append(f"severities = [{', '.join(map(_text, one.severities))}]")
        texts = ("severity", "title", "consequence")
        lines += [f"{field} = {_text(getattr(one, field))}" for field in texts]
        if one.more:
            lines.append(f"more = {one.more}")
        for fact in one.evidence:
            lines.append(f"[[{name}.evidence]]")
            lines += [f"{key} = {_text(getattr(fact, key))}" for key in ("what", "value", "source")]
        lines.append("")
    return "\n".join(lines)


def _text(text: str) -> str:
    """A basic string of TOML, which is one of JSON but for DEL."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


if __name__ == "__main__":
    every = chosen((*of_cases(), *of_kernel_texts(), *of_runs()))
    PATH.write_text(document(every), encoding="utf-8")
