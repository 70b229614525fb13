"""The catalogue of faults: every row is found by the line that is printed for it, and is whole."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gputop.topology.hardware.faults.catalogue import (
    ADDRESS,
    KernelFault,
    compiled,
    fault_of,
    faults,
    fixes,
    groups,
    in_words,
    meanings,
    rows,
    signs,
    told,
)
from gputop.topology.model.kernel_event import KernelEvent, KernelSource
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from gputop.topology.sources.linux.kernel_lines import CAME_BACK, read_lines, said_in
from tests.tables import hold

GPU = "NVRM: Xid (PCI:0000:9b:00)"
TOLD = (
    "XidCriticalError: Xid=69 on Device=GPU-1, the device will go unhealthy.",
    "Detected XID 79",
    "event xid=31",
    "XID 79(GPU has fallen off the bus) detected on PCI:0000:ae:00",
    'level=warning msg="gpu health check failed: Xid error 48 on GPU 3"',
    'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-1",device="nvidia3"} 79',
)
"""Xids in the words of monitors."""
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0)"
LINK = "XC0 i0 Link 08"
CHANGED = {13, 31, 74, *range(144, 151), 154}
"""Xids of which further words change the meaning."""
ALL = (KernelSource.XID, KernelSource.SXID, KernelSource.LINE)


NOT_TOLD = (
    'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-1",device="nvidia3"} 0',
    "What does Xid 48 on GPU 3 mean?",
    "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.",
)
"""A counter without an Xid, and sentences."""


def test_no_xid_is_read_where_a_monitor_tells_of_none() -> None:
    for line in NOT_TOLD:
        assert said_in(line) is None, line


def event_in(*lines: str) -> KernelEvent:
    (event,) = read_lines(lines).kernel_events or ()
    return event


def every() -> list[KernelFault]:
    return [row for kind in ALL for row in faults(kind).values()]


def test_a_row_is_whole() -> None:
    known = {group.id for group in groups()}
    actions = {row["id"] for row in rows("actions")["action"]}

    def whole(row: KernelFault) -> None:
        assert set(row.adds) <= set(faults(KernelSource.LINE))
        if row.only_adds:
            return
        assert row.says, row.source
        assert not row.says.endswith(".")
        assert row.source
        assert {row.act, row.then} <= actions | {""}
        assert row.severity in (BROKEN, SLOW, NOTICE, CANNOT_TELL)
        if not row.fatal:
            assert row.rule in known

    hold(whole, every(), lambda row: f"{row.id}{row.code}")


def test_what_harms_says_what_to_do() -> None:
    quiet = {"xid 45", "xid 154"}  # an echo; what the line itself says

    def advised(row: KernelFault) -> None:
        if row.severity.counts and not row.only_adds and row.fatal not in ("unsaid", "either"):
            assert list(fixes(row, "0000:9b:00.0"))
            assert all(step.text.endswith(".") for step in fixes(row, None))

    rows_with_harm = [row for row in every() if f"xid {row.code}" not in quiet]
    hold(advised, [row for row in rows_with_harm if not 144 <= row.code <= 150], str)


@pytest.mark.parametrize(
    "rest", ["", ",", ", pid=", ", pid='<unknown>', name=<unknown>", ", (", " x"]
)
def test_a_line_that_is_cut_off_says_whole_things_and_what_to_do(rest: str) -> None:
    def advised(row: KernelFault) -> None:
        for event in read_lines([f"{GPU}: {row.code}{rest}"]).kernel_events or ():
            found = fault_of(event)
            assert "  " not in found.told(event.details)
            assert not found.told(event.details).endswith(" ")
            if found.severity.counts and row.code != 45:  # an echo
                assert list(fixes(found, event.device))

    hold(advised, faults("xid").values(), lambda row: str(row.code))


def test_every_action_is_used_and_every_group_has_faults() -> None:
    used = {name for row in every() for name in (row.act, row.then)}
    used |= {row.get(key, "") for row in rows("nvlink5")["nvlink5"] for key in ("act", "then")}
    used |= {"drain-and-reset", "drain-p2p", "watch-link", "reset-fabric"} | {"ask-recovery"}
    assert {row["id"] for row in rows("actions")["action"]} <= used
    found = {row.rule for row in every()} | {"nvswitch-fatal", "nvswitch-error"}
    assert {group.id for group in groups()} == found
    assert all(set(group.after) <= {other.id for other in groups()} for group in groups())


def test_all_numbers_are_there() -> None:
    assert [row.code for row in faults("xid").values()] == list(range(1, 177))
    assert len(faults("sxid")) == 399
    assert sum(row.fatal == "always" for row in faults("sxid").values()) == 20
    assert len(rows("nvlink5")["nvlink5"]) == 95


def test_every_xid_is_read_from_its_line() -> None:
    def read(row: KernelFault) -> None:
        event = event_in(f"{GPU}: {row.code}, pid=4242, name=python3, {row.name}")
        assert (event.kind, event.code) == (KernelSource.XID, str(row.code))
        assert event.device == "0000:9b:00.0"
        found = fault_of(event)
        assert found.label == f"Xid {row.code}"
        assert (found.says, found.severity) == (row.says, row.severity)

    table = [row for row in faults("xid").values() if row.code not in CHANGED]
    hold(read, table, lambda row: str(row.code))


def test_every_sxid_is_read_from_its_line() -> None:
    def read(row: KernelFault) -> None:
        for word, severity in (("Fatal", BROKEN), ("Non-fatal", None)):
            event = event_in(f"{SWITCH}: {row.code:05d}, {word}, Link 32 {row.words} (First)")
            assert (event.code, event.link, event.said) == (str(row.code), 32, word)
            found = fault_of(event)
            assert found.says == row.says
            assert found.severity is (severity or (row.severity if row.fatal == "no" else NOTICE))
        quiet = fault_of(event_in(f"{SWITCH}: {row.code:05d}, {row.words}"))
        assert quiet.severity is row.severity

    hold(read, faults("sxid").values(), lambda row: str(row.code))


def _line(row: dict[str, Any], *, new: bool, raised: bool = False) -> str:
    info = row["v2" if new else "v1"] | row.get("reason", 0) << 20
    info |= raised << (7 if new else 10)
    unit = row["unit"][-1 if new else 0]
    word = "Nonfatal" if row["fatal"] in ("no", "promoted") and not raised else "Fatal"
    return f"{GPU}: {row['xid']}, {unit} {word} {LINK} (0x{info:08x} 0x{row.get('status', 0):08x})"


@pytest.mark.parametrize("driver", [None, 570, 575])
def test_every_word_of_nvlink_5_is_read_in_the_form_of_its_driver(driver: int | None) -> None:
    def read(row: dict[str, Any]) -> None:
        event = event_in(_line(row, new=driver == 575))
        assert event.link == 8
        found = fault_of(event, driver)
        fatal = row["fatal"] not in ("no", "promoted")
        # What the table takes lightly and the line calls fatal stays fatal.
        assert found.act == (row["act"] if row["act"] != "ignore" or not fatal else "reset-gpu")
        assert found.severity is (BROKEN if found.act == "reset-gpu" else NOTICE)
        assert found.label == f"Xid {row['xid']} {event.said.split()[0]}"

    hold(read, rows("nvlink5")["nvlink5"], str)


def test_a_bit_raises_an_error_of_nvlink_5_to_a_reset() -> None:
    raised = [row for row in rows("nvlink5")["nvlink5"] if "promoted" in row]
    assert len(raised) == 3
    for row in raised:
        for driver, new in ((570, False), (575, True)):
            found = fault_of(event_in(_line(row, new=new, raised=True)), driver)
            assert (found.severity, found.act) == (BROKEN, "reset-gpu")
            assert fault_of(event_in(_line(row, new=new)), driver).act == "ignore"


def test_the_form_of_another_driver_is_not_taken_for_this_one() -> None:
    row = next(row for row in rows("nvlink5")["nvlink5"] if row["act"] == "restart-program")
    old, new = _line(row, new=False), _line(row, new=True)
    assert fault_of(event_in(old), 575).act == "watch-link"
    assert fault_of(event_in(new), 570).act == "watch-link"
    assert fault_of(event_in(old)).act == fault_of(event_in(new)).act == "restart-program"


def test_several_bits_of_a_status_are_as_bad_as_the_worst() -> None:
    line = f"{GPU}: 144, SAW_MVB Fatal {LINK} (0x00000001 0x00000003)"
    assert fault_of(event_in(line), 580).act == "reset-gpu"
    line = f"{GPU}: 144, SAW_MVB Nonfatal {LINK} (0x00000001 0x00000024)"
    assert fault_of(event_in(line), 580).act == "ignore"


def test_why_a_link_went_down_is_said() -> None:
    line = f"{GPU}: 149, NETIR_LINK_DOWN Fatal {LINK} (0x02300011 0x00000000)"
    found = fault_of(event_in(line), 580)
    assert found.says == "an NVLink went down: the other end was too hot"
    assert found.then == "check-peer"


def test_every_line_in_words_is_read_as_it_is_printed() -> None:
    def read(row: KernelFault) -> None:
        for line in row.shown:
            assert any(sign in line for sign in signs()), line
            events = read_lines([line]).kernel_events or ()
            assert [event.code for event in events] == ([] if row.only_adds else [row.id]), line

    assert all(row.shown for row in faults(KernelSource.LINE).values())
    hold(read, faults(KernelSource.LINE).values(), lambda row: row.id)


def test_a_later_line_ends_a_fault() -> None:
    """Each form in which the kernel says that a device came back, and the same of another one."""

    def ends(row: KernelFault) -> None:
        assert row.back, row.id
        for back in row.back:
            device = re.findall(ADDRESS, back)[0]
            shown = [re.sub(ADDRESS, device, line) for line in row.shown]
            fault = next(line for line in shown if device in line)
            held, other = event_in(fault), back.replace(device, "00ff:1f:1e.7")
            assert (held.code, held.over) == (row.id, ""), fault
            assert event_in(fault, back).over == CAME_BACK, back
            assert not event_in(fault, other).over, other
            assert {one.over for one in read_lines([fault, back, fault]).kernel_events or ()} == {
                "",
                CAME_BACK,
            }, "it came again"

    hold(
        ends, (row for row in faults(KernelSource.LINE).values() if row.clears), lambda row: row.id
    )


def test_a_line_is_read_as_if_every_pattern_was_tried() -> None:
    table = faults(KernelSource.LINE).values()

    def read(line: str) -> None:
        tried = ((row, compiled(one).search(line)) for row in table for one in row.any)
        first = next(((row, found) for row, found in tried if found is not None), None)
        said = in_words(line)
        assert (first is None) == (said is None), line
        if first is not None and said is not None:
            assert (said[0].id, said[1].span()) == (first[0].id, first[1].span()), line

    hold(read, (line for row in table for line in (*row.shown, row.clears)))


def test_a_sign_is_needed() -> None:
    table = faults(KernelSource.LINE).values()
    texts = [GPU, SWITCH, *TOLD, *(line for row in table for line in row.shown)]
    texts += [
        pattern.replace("\\", "").replace("[45]", "4") for row in table for pattern in row.any
    ]
    assert [sign for sign in signs() if not any(sign in text for text in texts)] == []


def test_every_bit_of_pcie_is_explained() -> None:
    for code, head in (
        ("aer-corrected", "severity=Corrected"),
        ("aer-nonfatal", "severity=Uncorrected (Non-Fatal)"),
        ("aer-fatal", "severity=Uncorrected (Fatal)"),
    ):
        for place, word in enumerate(meanings(code)):
            event = event_in(
                f"[1.5] pcieport 0000:00:02.0: PCIe Bus Error: {head}, type=Physical Layer",
                f"[1.5] pcieport 0000:00:02.0:    [{place % 32:2d}] {word}    (First)",
            )
            assert (event.code, event.count) == (code, 1)
            assert (word, meanings(code)[word]) in list(told(event))


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        ("(0x40000001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", NOTICE),
        ("(0x0, 0x0, 0x0, 0x0, 0x00100000, 0x0, 0x0)", NOTICE),
        ("(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", BROKEN),
        ("(0x40000011, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", BROKEN),
        ("", BROKEN),
    ],
)
def test_the_registers_of_xid_74_are_read(words: str, severity: object) -> None:
    event = event_in(f"{GPU}: 74, pid=1, name=x, NVLink: fatal error detected on link 4{words}")
    assert event.link == 4
    assert fault_of(event).severity is severity
    assert bool(list(told(event))) == bool(words)


@pytest.mark.parametrize(
    ("number", "words", "act"),
    [
        ("0x1", "GPU Reset Required", "reset-gpu"),
        ("0x2", "Node Reboot Required", "restart-node"),
        ("0x2", "OS Reboot", "restart-node"),
        ("0x3", "Drain P2P", "drain-p2p"),
        ("0x4", "Drain and Reset", "drain-and-reset"),
    ],
)
def test_what_the_driver_asks_for_is_read(number: str, words: str, act: str) -> None:
    line = f"{GPU}: 154, GPU recovery action changed from 0x0 (None) to {number} ({words})"
    found = fault_of(event_in(line))
    assert found.act == act
    assert found.severity.counts


def test_an_unknown_number_is_not_guessed() -> None:
    for line in (f"{GPU}: 999, something new", f"{SWITCH}: 99999, something new"):
        assert fault_of(event_in(line)).severity is CANNOT_TELL


def test_a_number_means_what_it_meant_with_its_driver() -> None:
    event = event_in(f"{GPU}: 144, pid=1, name=x, words")
    assert "key" in fault_of(event, 550).says
    assert "SAW" in fault_of(event, 570).says


def test_programs_that_crash_in_one_place_make_the_gpu_suspect() -> None:
    line = "{}: 13, pid={}, name=python, Graphics SM Warp Exception on (GPC 2, TPC {}, SM 0): {}"
    wrong = "Out Of Range Address"
    same = event_in(*(line.format(GPU, pid, 5, wrong) for pid in (3643, 3801, 4017)))
    assert (same.count, len(same.programs)) == (3, 3)
    assert fault_of(same).severity is SLOW
    apart = event_in(*(line.format(GPU, pid, pid, wrong) for pid in (1, 2, 3)))
    assert fault_of(apart).severity is NOTICE
    memory = event_in(line.format(GPU, 1, 1, "Double Bit ECC Error"))
    assert fault_of(memory).severity is BROKEN


def test_an_xid_in_the_words_of_a_monitor_is_the_same_fault() -> None:
    said = [said_in(line) for line in TOLD]
    assert [one and one["code"] for one in said] == ["69", "79", "31", "79", "48", "79"]
    assert said_in("we saw Xid 79 last week") is None


def test_a_fault_names_the_word_of_its_line() -> None:
    said = {
        "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please": "580.xx",
        "amdgpu 0000:03:00.0: ring mes_kiq_3.1.0 test failed (-110)": "mes_kiq_3.1.0",
        "kfd kfd: amdgpu: PITCAIRN  not supported in kfd": "PITCAIRN",
    }
    for line, word in said.items():
        (event,) = read_lines([line]).kernel_events or ()
        assert word in fault_of(event).told(event.details), line
    for row in faults(KernelSource.LINE).values():
        assert "{" not in row.told(), row.id


WANTS = "NVRM: GPU0 _kgspBootGspRm: (the GPU is likely in a bad state and may need to be reset)"


def test_what_the_driver_says_to_do_comes_first() -> None:
    for code in faults(KernelSource.LINE)["nvrm-wants-reset"].adds:
        (shown, *_) = faults(KernelSource.LINE)[code].shown
        event = event_in(shown, WANTS)
        assert event.code == code
        first, *_ = fixes(fault_of(event), "0000:01:00.0")
        assert first.command == "nvidia-smi --gpu-reset -i 0000:01:00.0"


@pytest.mark.parametrize(
    ("file", "severity"),
    [
        ("vega20_ta.bin", NOTICE),
        ("sienna_cichlid_cap.bin", NOTICE),
        ("gc_11_0_0_mes_2.bin", NOTICE),
        ("gc_11_0_0_mes.bin", BROKEN),
        ("vega20_sos.bin", BROKEN),
        ("arcturus_gpu_info.bin", BROKEN),
    ],
)
def test_a_firmware_file_that_the_driver_does_without_breaks_nothing(
    file: str, severity: object
) -> None:
    said = f"amdgpu 0000:19:00.0: Direct firmware load for amdgpu/{file} failed with error -2"
    found = fault_of(event_in(said))
    assert (found.rule, found.severity) == ("amdgpu-firmware", severity)


def test_a_record_of_the_boot_before_is_no_fault_of_now() -> None:
    head, severity = (
        "BERT: Error records from previous boot:",
        "[Hardware Error]: event severity: fatal",
    )
    part = "[Hardware Error]:   section_type: PCIe error"
    for lines in ((head, severity, part), (severity, part), (head,)):
        found = {fault_of(event).severity for event in read_lines(lines).kernel_events or ()}
        assert found == {NOTICE}
    # The same parts behind a head of now, which the kernel numbers, add nothing and excuse nothing.
    (event,) = read_lines(("{1}" + severity, "{1}" + part)).kernel_events or ()
    assert fault_of(event).severity == SLOW
    assert not read_lines(("{1}" + part,)).kernel_events


def test_a_missing_firmware_of_the_gsp_says_where_it_belongs() -> None:
    for line in (
        "NVRM: RmFetchGspRmImages: No GSP firmware image found",
        "NVRM: GPU 0000:01:00.0 requires GSP firmware, which is not there",
    ):
        (event,) = read_lines((line,)).kernel_events or ()
        assert fault_of(event).severity == BROKEN
        assert "/lib/firmware/nvidia/VERSION/" in fault_of(event).says
    loaded = (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.14, GSP firmware found"
    )
    assert not read_lines((loaded,)).kernel_events
