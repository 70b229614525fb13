"""No word of NVIDIA's on a node of AMD's GPUs: every screen, its help, and what the probes say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.printing.render import blocks_of, texts
from gputop.screens.flags.screen import explanation as why_flag
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose, load
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.diagnosis.rules.devices.models import MIXED
from gputop.topology.explain.why import why_device
from gputop.topology.flags.account.account import account
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.hardware.terms import terms_of
from gputop.topology.hardware.vendors import VENDORS
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import load as load_files
from gputop.topology.report import Report
from tests.support.app import SIZES, demo_report, give, picture, press
from tests.support.mixed_made import mixed_report
from tests.tables import hold

NVIDIAS = frozenset(rule.id for rule in load() if rule.vendor == "nvidia")
AMDS = frozenset(rule.id for rule in load() if rule.vendor == "amd")
WRONG = re.compile(
    r"\b(?:CUDA|NVLinks?|NVSwitch(?:es)?|NCCL|cuBLAS(?:Lt)?|NVML|cuda|nvidia-smi)\b(?![_=.])"
)


def examined(demo: str) -> Report:
    report = demo_report(demo)
    return Report(report.node, diagnose(Case(report.node)), ())


async def everything(pilot: Pilot[Any]) -> list[str]:
    """All lines of all screens, with their help and what stands behind w."""
    seen: list[str] = []
    for number in range(1, 9):
        await press(pilot, str(number))
        for keys in ((), ("w",), ("escape", "question_mark"), ("escape", "m"), ("m",), ("m",)):
            await press(pilot, *keys)
            seen += picture(pilot).splitlines()
        await press(pilot, "escape")
    await press(pilot, "6")
    for _ in range(4):
        await press(pilot, "down", "w", "pagedown")
        seen += picture(pilot).splitlines()
        await press(pilot, "escape")
    return seen


SMALL, LARGE = SIZES


@pytest.mark.parametrize(
    ("demo", "size"),
    [
        pytest.param("mi300x-8", LARGE, marks=pytest.mark.grid),
        pytest.param("mi250x-8", LARGE, marks=pytest.mark.grid),
        ("sick-mi300x-8", SMALL),
    ],
)
async def test_screens_of_a_node_of_amds(demo: str, size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, examined(demo))
        seen = await everything(pilot)
    assert any("run RCCL" in line for line in seen)
    assert any("RCCL  Path" in line for line in seen)
    wrong = [line.strip() for line in seen if WRONG.search(line)]
    assert not wrong, wrong[:5]


async def test_screens_of_an_h100_node_keep_their_words() -> None:
    async with GpuTop().run_test(size=SIZES[1]) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3")
        assert "NCCL  Path" in picture(pilot)


def test_advice_on_a_flag_names_the_level_that_rccl_has() -> None:
    study = Study(DemoFeed("mi300x-8").at(0))
    flag = catalogue().flag("NCCL_P2P_DISABLE")
    assert flag is not None
    text = " ".join(texts(blocks_of(account(flag, study)), 400))
    assert "NCCL_P2P_LEVEL=XGMI keeps xGMI" in text
    assert "NCCL_P2P_LEVEL=NVL" not in text
    h100 = Study(DemoFeed("hgx-h100-8").at(0))
    assert "NCCL_P2P_LEVEL=NVL keeps NVLink" in " ".join(texts(blocks_of(account(flag, h100)), 400))


def test_what_a_user_wrote_stays() -> None:
    study = Study(DemoFeed("mi300x-8").at(0), values={"NCCL_P2P_LEVEL": "NVL"})
    flag = catalogue().flag("NCCL_P2P_LEVEL")
    assert flag is not None
    text = " ".join(texts(blocks_of(account(flag, study)), 400))
    assert "NCCL_P2P_LEVEL=NVL. It is ignored: RCCL calls this level XGMI" in text


def test_a_template_says_each_vendors_words() -> None:
    amds, nvidias = (DemoFeed(name).at(0).machine.gpus for name in ("mi300x-8", "hgx-h100-8"))
    text = "{libraries} reads NCCL_DEBUG, {library}'s log, {link}, {runtime}"
    assert terms_of(amds).fill(text) == "RCCL reads NCCL_DEBUG, RCCL's log, xGMI, HIP"
    assert terms_of(nvidias).fill(text) == "NCCL reads NCCL_DEBUG, NCCL's log, NVLink, CUDA"
    libraries = " or ".join(vendor.library for vendor in VENDORS)
    several = f"{libraries} reads NCCL_DEBUG, NCCL's log, NVLink, CUDA"
    assert terms_of((*amds, *nvidias)).fill(text) == terms_of(()).fill(text) == several


@pytest.mark.parametrize(
    ("demo", "others"), [("mi300x-8", NVIDIAS), ("hgx-h100-8", AMDS), ("mi250x-8", NVIDIAS)]
)
def test_rules_about_the_other_vendor_are_not_missed(demo: str, others: frozenset[str]) -> None:
    assert {"fabric-state", "amd-iommu"} & others
    found = examined(demo).diagnosis
    assert found is not None
    assert others.isdisjoint((*found.unexamined, *found.examined))
    assert set(found.elsewhere) == others


def test_a_mixed_node_is_asked_about_both() -> None:
    found = diagnose(Case(mixed_report().node))
    needed = {rule.id for rule in load() if rule.vendor and not rule.extra}
    assert needed
    assert {*found.unexamined, *found.examined} >= needed


def test_what_would_disprove_a_finding_is_asked_of_the_vendors_tool() -> None:
    amds, nvidias = (DemoFeed(name).at(0).machine.gpus for name in ("mi300x-8", "hgx-h100-8"))

    def asked(rule: Rule) -> None:
        if rule.vendor != "nvidia":
            assert "nvidia-smi" not in rule.disproof_for(amds, terms_of(amds))
        if rule.vendor != "amd":
            assert "amd-smi" not in rule.disproof_for(nvidias, terms_of(nvidias))
        assert rule.vendor in ("", "nvidia", "amd")
        # Without need it would be text that nobody reads.
        assert not rule.disproof_by or "`nvidia-smi" in rule.disproof
        assert bool(rule.asked) == ("{asked}" in rule.disproof)

    hold(asked, load(), lambda rule: rule.id)


def facts_of(demo: str) -> dict[str, str]:
    report = demo_report(demo)
    why = why_device(report.node, report.snapshot.machine.gpus[0].address)
    return {fact.what: fact.value for fact in why.facts}


def test_why_a_gpu_of_amds_names_what_its_own_tools_name() -> None:
    answers = facts_of("mi300x-8")
    assert answers["Which CPUs are near?"] == "NUMA node 0, CPUs 0-95,192-287"
    assert answers["Clock limit?"] == "power cap (PPT) (harmless)"
    assert answers["What does its memory protection say?"].endswith("loaded; 0 bad pages")
    nvidias = facts_of("hgx-h100-8")
    assert nvidias["Clock limit?"] == "sw power cap (harmless)"
    assert nvidias["What does its memory protection say?"].endswith("; 0 rows remapped")


def test_why_of_a_part_that_only_kfd_lists_gives_its_model_and_no_dashes() -> None:
    report = Report(Node(load_files(["tests/recordings/kfd/mi308x-8-cpx.tar.gz"]).snapshot))
    why = why_device(report.node, report.snapshot.machine.gpus[0].address)
    answers = {fact.what: fact.value for fact in why.facts}
    assert why.claim.startswith("GPU0: MI308X. ")
    assert answers["What is it?"] == "MI308X, part 0 of package 0000:0a:00.0, 48.0 GiB"
    assert answers["How is it attached?"] == "its PCIe link was not read"
    assert answers["Which CPUs are near?"] == "not known"


def test_no_job_over_gpus_of_two_vendors_is_called_slow() -> None:
    (mixed,) = (
        finding
        for finding in diagnose(Case(mixed_report().node)).findings
        if finding.id == MIXED.id
    )
    assert mixed.impact.startswith("No job runs over GPUs of two vendors")


async def test_a_gpu_without_a_name_goes_by_the_model_of_its_pci_id() -> None:
    report = Report(Node(load_files(["tests/recordings/kfd/mi300x-8-cpx.tar.gz"]).snapshot))
    async with GpuTop().run_test(size=SIZES[1]) as pilot:
        await give(pilot, report)
        seen = picture(pilot)
    assert re.search(r"›  0  05:00\.0 ", seen)
    assert "GPUs · MI300X" in seen
    assert "GPU 0 by PCI address · MI300X, by its PCI id" in seen


async def test_a_variable_that_is_not_set_has_no_consequence_and_nothing_to_mend() -> None:
    study = Study(DemoFeed("mi300x-8").at(0))
    unset, given = (why_flag("HSA_ENABLE_SDMA", value, study) for value in (None, "0"))
    assert unset is not None
    assert given is not None
    asked = {fact.what: fact.value for fact in unset.facts}
    assert asked["what to watch for"] == "Copies to the host become slower."
    assert (unset.impact, unset.fix) == ("", ())
    assert given.impact == "Copies to the host become slower."


async def test_jobs_say_whose_order_of_interfaces_is_taken() -> None:
    async with GpuTop().run_test(size=SIZES[1]) as pilot:
        await give(pilot, demo_report("mi300x-8"))
        await press(pilot, "7", "down")
        assert "the first in RCCL's order" in picture(pilot)
