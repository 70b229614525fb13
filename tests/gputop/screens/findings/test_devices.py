"""What was found of a GPU, where that GPU is: its sign in the table, and the first words of why."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.app import GpuTop
from gputop.live.findings import explained_with, shown
from gputop.screens import NAMES
from gputop.topology.model.page import Fact, Fix, Page, Steps
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.report import Report
from tests.support.app import SIZES, app_of, demo_report, give, picture, press, text
from tests.support.findings_made import diagnosis, finding

PLAIN = Page.why(title="GPU3", claim="a GPU", facts=(Fact(what="own?", value="own", source=""),))


def addresses(report: Report) -> list[str]:
    return [gpu.address for gpu in report.snapshot.machine.gpus]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_table_has_a_sign_beside_the_gpu(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        report = demo_report("hgx-h100-8")
        gpus = addresses(report)
        await give(pilot, report)
        plain = text(pilot, "#gpus").splitlines()[-8:]
        found = diagnosis(
            finding("gpu-lost", BROKEN, "lost", gpus[3]),
            finding("pcie-width", SLOW, "narrow", *gpus[2:4]),
            finding("persistence-off", NOTICE, "off", *gpus),
        )
        await give(pilot, Report(report.node, found, ()))
        lines = text(pilot, "#gpus").splitlines()[-8:]
        assert [line[1] for line in lines] == [" ", " ", "▼", "✗", " ", " ", " ", " "]
        assert [line[:1] + line[2:] for line in lines] == [line[:1] + line[2:] for line in plain]
        app_of(pilot).findings.silence(found.findings[0].key)
        await give(pilot, Report(report.node, found, ()))
        assert [line[1] for line in text(pilot, "#gpus").splitlines()[-6:-4]] == ["▼", "▼"]
        await give(pilot, Report(report.node, diagnosis(), ()))
        assert text(pilot, "#gpus").splitlines()[-8:] == plain


@pytest.mark.parametrize("view", ["node", "map"])
async def test_why_of_a_gpu_begins_with_what_was_found_of_it(view: str) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        first, second, *_ = addresses(report)
        mine = finding("pcie-width", SLOW, "GPU0 [b]is narrow[/b]", first)
        other = finding("gpu-lost", BROKEN, "GPU1 is lost", second)
        await give(pilot, Report(report.node, diagnosis(other, mine), ()))
        await press(pilot, str(NAMES.index(view) + 1))
        if view == "map":
            diagram = pilot.app.screen.query_one("#wiring")
            while diagram.box.members != (first,):  # type: ignore[attr-defined]
                await press(pilot, "tab")
        await press(pilot, "w")
        shown = picture(pilot)
        assert "▸ slow: GPU0 [b]is narrow[/b]" in shown
        assert "what follows of pcie-width · rule pcie-width" in shown
        facts = pilot.app.screen.explanation.facts  # type: ignore[attr-defined]
        assert all("GPU1 is lost" not in fact.value for fact in facts)
        await press(pilot, "y")
        assert pilot.app.clipboard == "fix --pcie-width"


def test_findings_come_first_and_the_worst_is_mended() -> None:
    report = demo_report("hgx-h100-8")
    gpus = addresses(report)
    notice = finding("persistence-off", NOTICE, "off", *gpus)
    bad, worse = finding("a", SLOW, "narrow", gpus[3]), finding("b", BROKEN, "lost", gpus[3])
    seen = shown(Report(report.node, diagnosis(worse, bad, notice), ()))
    assert seen is not None
    why = explained_with(PLAIN, seen, f"{gpus[3]}/0")
    assert [fact.value for fact in why.facts] == ["lost", "narrow", "off", "own"]
    assert [fact.decides for fact in why.facts] == [True, True, False, False]
    assert why.commands == ("fix --b",)
    assert "mend b (needs root)" in why.fix_text
    # Its own cure stays, and a notice mends nothing.
    mends = Steps((Fix(text="do", command="that"),))
    own = replace(PLAIN, blocks=(*PLAIN.blocks, mends))
    assert explained_with(own, seen, gpus[3]).commands == ("that",)
    assert explained_with(PLAIN, seen, gpus[0]).fix == ()
    assert explained_with(PLAIN, seen, "0000:ff:00.0") == PLAIN
