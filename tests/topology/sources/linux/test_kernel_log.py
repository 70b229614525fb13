"""Lines of the kernel's log in all forms that tools print, and what ends an event."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest

from gputop.topology.hardware.faults.catalogue import KernelFault, compiled, faults
from gputop.topology.model.kernel_event import MOST_EVENTS, KernelEvent, KernelSource
from gputop.topology.model.source import SourceAbsent
from gputop.topology.recorded.pasted import read_pasted
from gputop.topology.sources.linux.kernel_lines import (
    ASKS_NOTHING,
    CAME_BACK,
    KERNELS,
    LONG_AGO,
    LONGEST_LINE,
    RESTARTED,
    read_lines,
    said_in,
)
from gputop.topology.sources.linux.kernel_log import SOURCE, KernelLogReader
from tests.support.cpu import within

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOST = "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus."


def events(*lines: str, uptime: float = 0.0) -> tuple[KernelEvent, ...]:
    return read_lines(lines, uptime).kernel_events or ()


HEADS = {
    "": "",
    "[ 9181.200000] ": "9181.2 s after the start",
    "[  +0.000844] ": "+0.000844",
    "[Sun Apr 26 23:12:26 2026] ": "Sun Apr 26 23:12:26 2026",
    "[Aug 4 09:48] ": "Aug 4 09:48",
    "2026-01-12T03:04:05,123456+01:00 ": "2026-01-12T03:04:05,123456+01:00",
    "2026-01-12T03:04:05.123456+01:00 g7 kernel: ": "2026-01-12T03:04:05.123456+01:00",
    "2026-01-12T03:04:05+0100 g7 kernel: [ 9181.200000] ": "2026-01-12T03:04:05+0100",
    "Jan 12 03:04:05 g7 kernel: ": "Jan 12 03:04:05",
    "Jan  2 03:04:05 g7 kernel: [ 9181.200000] ": "Jan  2 03:04:05",
    "kernel: ": "",
    "kern  :err   : [ 9181.200000] ": "9181.2 s after the start",
    "kern  :err   : 2026-01-12T03:04:05,123456+01:00 ": "2026-01-12T03:04:05,123456+01:00",
    "3,2212,9181200000,-;": "9181.2 s after the start",
    "> [ 9181.200000] ": "9181.2 s after the start",
    "g7: [ 9181.200000] ": "",
    "/var/log/kern.log:Jan 12 03:04:05 g7 kernel: ": "",
}
"""The head of a line: the time that it tells."""


@pytest.mark.parametrize("head", HEADS)
def test_a_line_is_read_behind_any_head(head: str) -> None:
    (event,) = events(head + XID)
    assert (event.code, event.device) == ("79", "0000:9b:00.0")
    assert event.first == event.last == HEADS[head]
    assert head.startswith(("g7", "/var")) or event.text == XID
    assert not event.programs


@pytest.mark.parametrize("head", HEADS)
def test_a_line_is_read_behind_a_head_that_was_cut(head: str) -> None:
    for start in range(1, len(head)):
        (event,) = events(head[start:] + XID)
        assert (event.code, event.device) == ("79", "0000:9b:00.0"), head[start:]
    if head.endswith("00] ") or head.startswith("[  +"):
        assert KERNELS.match(head[head.index("[") + 1 :] + "pci 0000:05:00.0: enabling device")


@pytest.mark.parametrize("head", ["", "[  295.1     ] ", "295] ", "host kernel "])
def test_a_fault_without_a_head_is_read_among_lines_that_have_one(head: str) -> None:
    lines = [f"[  295.00{at}250] pci 0000:9b:00.{at}: enabling device" for at in range(4)]
    lines.insert(2, head + XID)
    read = read_pasted("\n".join(lines).encode(), "dmesg.txt")
    assert read is not None
    (event,) = read.snapshot.kernel_events or ()
    assert (event.code, event.device) == ("79", "0000:9b:00.0")


def test_a_line_of_a_program_is_not_the_kernels() -> None:
    ours = [head for head in HEADS if KERNELS.match(head + XID)]
    assert set(HEADS) - set(ours) == {
        "",
        "g7: [ 9181.200000] ",
        "/var/log/kern.log:Jan 12 03:04:05 g7 kernel: ",
    }
    for line in (
        "[rank0]: RuntimeError",
        "Jan 12 03:04:05 g7 slurmd[7]: x",
        "2026-01-12 03:04:05 x",
    ):
        assert not KERNELS.match(line)


FORMS = {
    "NVRM: Xid (0000:03:00): 14, Channel 00000001": ("14", "0000:03:00.0"),
    "NVRM: Xid (PCI:0000:5a:00): 79, GPU has fallen off the bus.": ("79", "0000:5a:00.0"),
    "NVRM: Xid (PCI:00000000:5A:00): 79, GPU": ("79", "0000:5a:00.0"),
    "NVRM: Xid (PCI:0018:01:00.0): 0x4f, pid=7, name=x, GPU": ("79", "0018:01:00.0"),
    "Xid (PCI:0000:05:00): 63, pid=1896, Row Remapper: New row": ("63", "0000:05:00.0"),
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE": ("94", "0000:01:00.0"),
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:01): 13, x": ("13", "0000:01:00.0"),
}


@pytest.mark.parametrize("line", FORMS)
def test_old_and_new_forms_of_an_xid_are_read(line: str) -> None:
    (event,) = events(line)
    assert (event.code, event.device) == FORMS[line]
    assert event.name == ("GPU instance 5" if "GPU-I" in line else "")


def test_who_used_the_gpu_is_kept() -> None:
    line = "NVRM: Xid (PCI:0000:9b:00): 31, pid={}, name=pt_main, Ch 8, MMU Fault: {}"
    words = "ENGINE GRAPHICS faulted @ 0x7f. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    (event,) = events(*(line.format(pid, words) for pid in (7, 8, 7)))
    assert event.programs == ("pt_main (7)", "pt_main (8)")
    assert (event.details, event.count) == (("FAULT_PDE",), 3)


def test_lines_with_data_tell_no_event_of_their_own() -> None:
    head = "nvidia-nvswitch1: SXid (PCI:0000:00:08.0): 11004, "
    words = f"{head}Non-fatal, Link 36 ingress invalid ACL (First)"
    more = [
        f"{head}Severity 0 Engine instance 36 Sub-engine instance 00",
        f"{head}Data {{0x0, 0x1}}",
    ]
    other = words.replace("nvswitch1", "nvswitch2").replace("08.0", "09.0")
    for lines in ([words, *more], [words, other, *more]):
        found = events(*lines)
        assert [event.count for event in found] == [1] * len(found)
    (alone,) = events(more[0])
    assert (alone.link, alone.said) == (36, "")
    assert events(more[0].replace("Severity 0", "Severity 1"))[0].said == "Fatal"


def test_a_sentence_over_several_lines_is_of_the_device_in_its_first() -> None:
    (event,) = events(
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "               NVRM: fallen off the bus and is not responding to commands.",
    )
    assert event.device == "0000:b3:00.0"


def test_the_bits_belong_to_the_error_above_them() -> None:
    port = "pcieport 0000:00:03.0: "
    found = events(
        f"{port}PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        f"{port}  device [8086:6f08] error status/mask=00004020/00000000",
        f"{port}   [ 5] SDES",
        f"{port}   [14] CmpltTO                (First)",
        "pcieport 0000:00:07.0:    [12] Timeout",
    )
    (event,) = found
    assert event.details == ("Transaction Layer", "SDES", "CmpltTO")


def test_a_restart_ends_what_was_before() -> None:
    boot = "[    0.000000] Linux version 6.8.0-31-generic (buildd@x) #31"
    before, after = events(XID, XID, boot, XID)[::-1]
    assert (before.over, before.count) == (RESTARTED, 2)
    assert (after.over, after.count) == ("", 1)
    assert not events(boot, XID)[0].over
    assert events(XID, "-- Boot 0123456789abcdef --")[0].over == RESTARTED


def test_the_driver_ends_what_it_asked_for() -> None:
    line = "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from {} to {}"
    asked = line.format("0x0 (None)", "0x1 (GPU Reset Required)")
    done = line.format("0x1 (GPU Reset Required)", "0x0 (None)")
    other = XID.replace("9b", "9c")
    found = {(event.device, event.code): event.over for event in events(XID, other, asked, done)}
    assert found["0000:9b:00.0", "79"] == ASKS_NOTHING
    assert found["0000:9c:00.0", "79"] == ""


def test_a_link_that_came_back_is_over() -> None:
    down, up = (f"mlx5_core 0000:5e:00.0 ens1f0np0: Link {word}" for word in ("down", "up"))
    assert [event.over for event in events(down, up)] == [CAME_BACK]
    assert [event.over for event in events(down, up, down)] == ["", CAME_BACK]
    assert [event.over for event in events(down, up.replace("5e", "5f"))] == [""]


def test_a_live_log_forgets_what_is_long_ago() -> None:
    old, new = f"3,1,100000000,-;{XID}", f"3,2,9000000000,-;{LOST}"
    found = {event.code: event.over for event in events(old, new, uptime=9100.0)}
    assert found == {"79": LONG_AGO, "nvrm-off-the-bus": ""}
    assert not events(old)[0].over


def test_the_driver_says_its_version() -> None:
    module = "NVIDIA UNIX Open Kernel Module for x86_64"
    line = f"[    5.1] NVRM: loading {module}  570.86.15  Release Build"
    part = read_lines([line, XID])
    assert part.software is not None
    assert part.software.nvidia_driver == "570.86.15"
    assert read_lines([XID]).software is None


def test_many_different_events_take_a_bounded_place() -> None:
    many = [
        XID.replace("9b:00", f"{bus:02x}:{slot:02x}") for bus in range(256) for slot in range(32)
    ]
    assert len(events(*many)) == MOST_EVENTS


def test_the_live_log_is_read_on_where_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads() -> Iterator[bytes | OSError]:
        yield f"6,1,1000,-;{XID}\n SUBSYSTEM=pci\n".encode()
        yield b"6,2,1001,-;python3: a line that is of no fault\n"
        yield BrokenPipeError()
        yield f"6,9,2000,-;{LOST}\n".encode()
        yield BlockingIOError()
        yield f"6,10,3000,-;{XID}\n".encode()
        yield BlockingIOError()

    said = reads()

    def read(log: int, size: int) -> bytes:
        record = next(said)
        if isinstance(record, OSError):
            raise record
        return record

    monkeypatch.setattr(os, "open", lambda path, flags: 7)
    monkeypatch.setattr(os, "read", read)
    reader = SOURCE.reader()
    first, second = reader(), reader()
    assert first["lines"] == [f"6,1,1000,-;{XID}", f"6,9,2000,-;{LOST}"]
    assert len(second["lines"]) == 3
    assert {event.code for event in SOURCE.parse(second).kernel_events or ()} == {
        "79",
        "nvrm-off-the-bus",
    }


def test_who_may_not_read_the_log_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(os, "open", refused)
    reader = SOURCE.reader()
    for _ in range(2):
        with pytest.raises(SourceAbsent, match="sudo dmesg"):
            reader()


def test_where_the_log_is_closed_the_journal_is_read(tmp_path: Path) -> None:
    line = f"[   12.500000] g7 kernel: {XID}"
    reader = KernelLogReader(str(tmp_path / "none"), ("printf", "%s\\n", line, "-- No entries --"))
    raw = reader()
    assert raw["lines"] == [f"[   12.500000] {XID}"]
    assert reader.again_seconds
    (event,) = SOURCE.parse(raw | {"uptime": 20.0}).kernel_events or ()
    assert (event.code, event.first) == ("79", "12.5 s after the start")
    assert reader()["lines"] == raw["lines"]  # read anew, not twice


@pytest.mark.parametrize("journal", [("false",), ("printf", "no entries"), ("no-such-tool",)])
def test_a_journal_that_tells_nothing_is_none(tmp_path: Path, journal: tuple[str, ...]) -> None:
    with pytest.raises(SourceAbsent, match="sudo dmesg"):
        KernelLogReader(str(tmp_path / "none"), journal)()


def test_a_line_that_no_kernel_writes_takes_no_minute() -> None:
    with within(0.5):
        assert said_in('"GPU ;GPU 31m", "amdgpu 6.14", ' * 130_000) is None


_LITERAL = re.compile(r"[A-Za-z_\[][A-Za-z_:()\[\] ]{3,}")


@pytest.mark.parametrize("row", list(faults(KernelSource.LINE).values()), ids=lambda row: row.id)
def test_pieces_of_a_fault_without_its_end_are_read_at_once(row: KernelFault) -> None:
    patterns = [compiled(pattern) for pattern in row.any]
    pieces = {piece for pattern in patterns for piece in _LITERAL.findall(pattern.pattern)}
    whole = " ".join(pieces)
    with within(0.3):  # where two parts of a pattern may lie anywhere, one line takes seconds
        for piece in (*pieces, whole, "NVRM: ", "NVRM: loading NVIDIA UNIX ", "NVRM: GPU 0000: "):
            for pattern in patterns:
                pattern.search(f"{piece} " * 4096, 0, LONGEST_LINE)


def test_what_fails_in_a_reset_is_no_sleep() -> None:
    begin = "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"
    failed = "amdgpu 0000:03:00.0: amdgpu: resume of IP block <gfx_v11_0> failed -110"
    place = "[drm:amdgpu_device_ip_suspend_phase2 [amdgpu]]"
    nameless = f"{place} *ERROR* suspend of IP block <mes> failed -110"
    for line in (failed, nameless):
        assert [event.code for event in events(begin, line)] == ["amdgpu-hang"]
        assert [event.code for event in events(line)] == ["amdgpu-resume"]
    apart = events(begin, failed.replace(":03:", ":04:"))
    assert {event.code for event in apart} == {"amdgpu-hang", "amdgpu-resume"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("kernel: drmn1: could not load firmware image 'amdgpu/polaris10_mc.bin'", "missing"),
        ("[drm ERROR :psp_v12_0_prep_cmd_buf] Unknown firmware type", "unknown"),
        ("drmn0: amdgpu: Direct firmware load for amdgpu/gc_11_0_0_me.bin failed", "missing"),
        ("drmn0: could not load firmware image 'i915/skl_dmc_ver1_27.bin'", ""),
    ],
)
def test_lines_of_freebsd_are_those_of_linux(line: str, code: str) -> None:
    said = said_in(line)
    assert (said["code"] if said else "") == (f"amdgpu-firmware-{code}" if code else "")


def test_a_line_that_tells_more_does_not_search_all_events() -> None:
    """Lines of the first port looked through all ports that came behind it, 14 s in all."""
    severity = "PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"
    first = [f"[1.5] pcieport {port:04x}:00:03.1: {severity}" for port in range(MOST_EVENTS)]
    more = ["[2.5] pcieport 0000:00:03.1:    [12] Timeout"] * 20_000
    begun = process_time()
    found = read_lines([*first, *more]).kernel_events or ()
    assert process_time() - begun < 2.5
    assert len(found) == MOST_EVENTS
    told = [event.device for event in found if "Timeout" in event.details]
    assert told == ["0000:00:03.1"]
