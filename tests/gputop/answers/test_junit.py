"""The JUnit file: what the usual schema allows and demands, and what of a diagnosis stands in it.

The schema is written down here as a table: elements, their attributes and types, children in
order and how many; from junit-10.xsd of Jenkins' xunit plugin and Ant's JUnit task.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.answers.check import CheckAnswer, CheckLevel
from gputop.answers.junit import suites, write
from gputop.checking.measure import ProbeEnd
from gputop.exits import Exit
from gputop.probes.protocol.status import Status
from gputop.topology.diagnosis.engine import Diagnosis, Silenced, load
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import Severity, Verdict

from ...support.checked import checked
from ...support.rule_cases import base

_NUMBER, _SECONDS = r"\d+", r"\d+(\.\d+)?"
_TEXT, _STAMP = r"[\s\S]*", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_RESULT = {"message": _TEXT, "type": _TEXT}
SCHEMA: dict[str, tuple[dict[str, str], set[str], str]] = {
    "testsuites": (
        {
            "name": _TEXT, "time": _SECONDS, "tests": _NUMBER, "failures": _NUMBER,
            "disabled": _NUMBER, "errors": _NUMBER,
        },
        set(),
        r"(testsuite )*",
    ),
    "testsuite": (
        {
            "name": _TEXT, "tests": _NUMBER, "failures": _NUMBER, "errors": _NUMBER,
            "time": _SECONDS, "disabled": _NUMBER, "skipped": _NUMBER, "timestamp": _STAMP,
            "hostname": r"\S[\s\S]*", "id": _NUMBER, "package": _TEXT,
        },
        {"name", "tests"},
        r"(properties )?(testcase )*(system-out )?(system-err )?",
    ),
    "properties": ({}, set(), r"(property )+"),
    "property": ({"name": r"\S+", "value": _TEXT}, {"name", "value"}, ""),
    "testcase": (
        {
            "name": r"\S+", "classname": r"\S+", "time": _SECONDS, "status": _TEXT,
            "assertions": _NUMBER,
        },
        {"name"},
        r"(skipped |error |failure )?(system-out )?(system-err )?",
    ),
    "skipped": ({"message": _TEXT}, set(), ""),
    "error": (_RESULT, set(), ""),
    "failure": (_RESULT, set(), ""),
    "system-out": ({}, set(), ""),
    "system-err": ({}, set(), ""),
}  # fmt: skip


def validate(element: Xml.Element) -> None:
    """Raise AssertionError where the schema does not allow this."""
    assert element.tag in SCHEMA
    attributes, needed, children = SCHEMA[element.tag]
    assert needed <= set(element.attrib) <= set(attributes), element.tag
    for name, value in element.attrib.items():
        assert re.fullmatch(attributes[name], value), (element.tag, name, value)
    assert re.fullmatch(children, "".join(f"{child.tag} " for child in element)), element.tag
    for child in element:
        validate(child)


def counted(root: Xml.Element) -> dict[str, int]:
    """What the suite says of itself, after it was compared with what is there."""
    validate(root)
    (suite,) = root
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == int(root.attrib["tests"]) == len(cases)
    assert len({case.attrib["name"] for case in cases}) == len(cases)
    found = {
        kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error", "skipped")
    }
    assert int(suite.attrib["failures"]) == int(root.attrib["failures"]) == found["failure"]
    assert int(suite.attrib["errors"]) == int(root.attrib["errors"]) == found["error"]
    assert int(suite.attrib["skipped"]) == found["skipped"]
    return found


def finding(severity: Severity, name: str, title: str = "GPU0 is odd") -> Finding:
    return Finding.of(
        id=name,
        severity=severity,
        title=title,
        evidence=(Fact(what="what", value="<&\"'>", source="NVML"),),
        disproof="a look",
        impact="It is slow.",
        fix=(Fix(text="Do it", command="sudo reboot", needs_root=True),),
    )


def answer(diagnosis: Diagnosis, **more: Any) -> CheckAnswer:
    node = base("demo hgx-h100-8")
    return CheckAnswer.of(diagnosis, node, mode=CheckLevel.QUICK, **more)


def test_the_table_refuses_what_is_wrong() -> None:
    for text in (
        "<testsuites><testcase name='x'/></testsuites>",
        "<testsuite tests='1'/>",
        "<testsuite name='a' tests='one'/>",
        "<testsuite name='a' tests='1'><testcase/></testsuite>",
        "<testsuite name='a' tests='1'><testcase name='b'><failure/><error/></testcase>"
        "</testsuite>",
        "<testsuite name='a' tests='1' verdict='x'/>",
    ):
        with pytest.raises(AssertionError):
            validate(Xml.fromstring(text))


@pytest.mark.parametrize("at", [0.0, -1.0, 1.7e9, 1e12, 1e15, -1e15, 1e300, -1e300])
def test_every_moment_is_a_date(at: float) -> None:
    node = msgspec.structs.replace(base("demo hgx-h100-8"), taken_at=at)
    root = suites(CheckAnswer.of(Diagnosis(examined=("a-a",)), node, mode=CheckLevel.QUICK), load())
    counted(root)
    assert (root[0].attrib["timestamp"] == "1970-01-01T00:00:00") is (at == 0 or abs(at) > 1e11)


def test_each_severity_has_its_outcome() -> None:
    diagnosis = Diagnosis(
        findings=(
            finding(Severity.BROKEN, "a-a"),
            finding(Severity.SLOW, "b-b"),
            finding(Severity.SLOW, "b-b", "another"),
            finding(Severity.CANNOT_TELL, "c-c"),
            finding(Severity.NOTICE, "d-d"),
            finding(Severity.BY_DESIGN, "e-e"),
        ),
        silenced=(Silenced(finding=finding(Severity.BROKEN, "f-f"), reason="old boards"),),
        examined=("a-a", "b-b", "c-c", "d-d", "e-e", "f-f", "fine"),
        unexamined=("bar1-small", "unread"),
        verdict=Verdict.BROKEN,
    )  # fmt: skip
    root = suites(answer(diagnosis, assumptions=("assumed",)), load())
    assert counted(root) == {"failure": 2, "error": 1, "skipped": 3}
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert list(cases["fine"]) == []
    failure = cases["b-b"].find("failure")
    assert failure is not None
    assert failure.attrib == {"type": "slow", "message": "GPU0 is odd"}
    assert failure.text is not None
    assert "another" in failure.text
    assert "sudo reboot" in failure.text
    assert "<&\"'>" in failure.text
    skipped = cases["bar1-small"].find("skipped")
    assert skipped is not None
    assert "size of BAR1" in skipped.attrib["message"]
    silenced = cases["f-f"].find("skipped")
    assert silenced is not None
    assert silenced.attrib["message"] == "silenced: old boards"
    assert cases["d-d"].find("system-out") is not None


def test_what_xml_does_not_allow_is_replaced(tmp_path: Path) -> None:
    evil = "a\x00b\x1b[31m\ud800\ufffe\uffff]]><x>"
    diagnosis = Diagnosis(findings=(finding(Severity.BROKEN, "a-a", evil),), examined=("a-a",))
    path = tmp_path / "junit.xml"
    write(answer(diagnosis, assumptions=(evil,), expect=evil), load(), str(path))
    root = Xml.parse(path).getroot()
    assert counted(root)["failure"] == 1
    message = next(root.iter("failure")).attrib["message"]
    assert message.startswith("a\ufffdb")
    assert message.endswith("]]><x>")


def test_what_ran_is_a_property() -> None:
    measured = (ProbeEnd("p2p", Status.FINISHED, "", 4),)
    root = suites(answer(Diagnosis(), measured=measured, expect="DGX H100"), load())
    found = {element.attrib["name"]: element.attrib["value"] for element in root.iter("property")}
    assert found["measured"] == "p2p"
    assert found["expect"] == "DGX H100"


def test_a_path_that_cannot_be_written_is_reported() -> None:
    for path in ("/nowhere/x.xml", "/", "a\x00b"):
        with pytest.raises(Exit):
            write(answer(Diagnosis()), load(), path)


@pytest.mark.parametrize("demo", ["hgx-h100-8", "sick-h100-8", "mi300x-8"])
def test_the_file_of_a_whole_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, demo: str
) -> None:
    path = tmp_path / "junit.xml"
    done = checked(capsys, "--quick", "--json", "--demo", demo, "--junit", str(path))
    root = Xml.parse(path).getroot()
    found = counted(root)
    names = {case.attrib["name"] for case in root.iter("testcase")}
    assert names >= {rule.id for rule in load() if not rule.extra}
    loud = {row["id"] for row in done.document["findings"] if row["severity"] in ("broken", "slow")}
    assert found["failure"] == len(loud)
    assert path.read_bytes().startswith(b"<?xml")
