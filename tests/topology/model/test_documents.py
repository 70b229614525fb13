"""Forms to fill in, changelogs and manuals accuse nothing; a report of a failure counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.documents import is_described
from tests.support.command import gputop
from tests.support.places import ROOT

FELL = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
SAID = "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1234, unhandled system error"
DESCRIBED = {
    "a form": f"---\nname: Bug report\nabout: Report it\n---\n\n## Describe the bug\n\n"
    f"```\n{SAID}\n[  12.345678] {FELL}\n```\n",
    "a changelog": f"# Changelog\n\n## 1.4.0 (2026-01-05)\n\n- Recover from {FELL}\n- {SAID}\n\n"
    "## [1.3.9] - 2025-12-01\n\n- Docs\n",
    "a manual": f"# gpu-doctor\n\n## Installation\n\n    pip install x\n\n## Usage\n\n    {FELL}\n"
    f"    {SAID}\n",
}
REPORTS = (
    f"## Describe the bug\n\n{FELL}\n\n## Installation\n\npip\n\n## Configuration\n\nnone\n",
    f"# install driver\n# configuration\n# 1.2\n# 1.3\n{FELL}\n",
    f"# Node 7\n\n## What I did\n\nNothing.\n\n{FELL}\n",
    f"# 1.2 nodes down\n\n{FELL}\n",
    f"---\n{FELL}\n---\n",
)

PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_our_own_manual_accuses_nothing(page: Path) -> None:
    lines = page.read_bytes().splitlines()
    read = examine(read_log(lines, signs=known_signs(), outputs=True), None)
    assert [one.title for one in read.findings if one.severity.counts] == []


@pytest.mark.parametrize("name", DESCRIBED)
@pytest.mark.parametrize("command", [("log",), ("check", "--quick", "--from")])
def test_what_describes_programs_accuses_nothing(
    name: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    text = tmp_path / "text.md"
    text.write_text(DESCRIBED[name])
    ran = gputop(*command, str(text))
    assert not set("✗▼") & set(ran.stdout)
    assert ran.returncode not in (1, 2)


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_of_a_failure_counts(report: str, tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text(report)
    assert "[xid-bus]" in gputop("check", "--quick", "--from", str(text)).stdout


@pytest.mark.parametrize("sign", [" ", "# ", "\t", "-", "](https://a", "| ---", "`", "1.2-"])
@pytest.mark.parametrize("begins", ["#", "## a", "## x ", "|", ""])
def test_a_long_line_does_not_take_for_ever(begins: str, sign: str) -> None:
    # With the square of its length it would: a table whose heading has 10,000 spaces did.
    assert not is_described([f"{begins}{sign * 60_000}a"] * 8)
