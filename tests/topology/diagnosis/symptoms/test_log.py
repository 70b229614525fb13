"""One text with a log and outputs of tools: one list of findings, each with its lines."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gputop.answers.log import answer_about
from gputop.pages.log import log_page
from gputop.printing.render import texts
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import UNSEEN
from gputop.topology.model.format import Format
from gputop.topology.model.severity import BY_DESIGN
from gputop.topology.node import Node
from gputop.topology.recorded.kept import GAP
from gputop.topology.recorded.load import load
from gputop.topology.recorded.pasted import read_pasted, text_formats
from tests.grid import share
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"
MIXED = (FOLDER / "mixed.txt").read_bytes()


def read(text: bytes) -> ReadLog:
    log = read_log(io.BytesIO(text), name="mixed.txt", signs=known_signs(), outputs=True)
    return examine(log, None)


def test_a_mixed_text_gives_one_report_with_its_lines() -> None:
    found = read(MIXED)
    lines = MIXED.decode().split("\n")
    ids = [finding.id for finding in found.findings]
    assert ids[1] == "collective-fails"
    assert {"acs-redirect", "pcie-width", "collective-fails", "nic-port-down"} <= set(ids)
    harm = [finding.severity.order for finding in found.findings]
    assert harm == sorted(harm)
    for finding in found.findings:
        quoted = [proof for proof in finding.evidence if proof.line is not None]
        assert quoted, finding.id
        for proof in quoted:
            said = " ".join(lines[(proof.line or 0) - 1].split())
            assert said.endswith(" ".join(proof.value.split())[-40:]), finding.id
    proofs = {finding.id: finding.evidence for finding in found.findings}
    assert [p.value for p in proofs["nic-port-down"] if p.line] == [
        "State: Down",
        "Physical state: Disabled",
    ]
    assert "ACSCtl" in proofs["acs-redirect"][0].value
    assert "x8 (downgraded)" in proofs["pcie-width"][1].value
    assert proofs["collective-fails"][0].value.endswith("21.01 21.01 3")


def test_a_row_is_found_by_the_size_that_it_begins_with() -> None:
    table, end, rest = (FOLDER / "a100-2-nccl-tests.txt").read_bytes().partition(b"# Out of bounds")
    found = read(table + b"# 2147483648\n" + end + rest).findings
    proofs = next(one.evidence for one in found if one.id == "collective-fails")
    assert any(proof.value.startswith("2147483648 536870912") for proof in proofs)
    assert not any(proof.value == "# 2147483648" for proof in proofs)


def test_figures_are_held_against_the_hardware() -> None:
    matrix = b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n\n"
    found = read(matrix + (FOLDER / "h100-2-p2p.txt").read_bytes()).measured
    shown = {figure.what: figure for figure in found}
    write = shown["write bandwidth, 2 pairs"]
    assert (write.tool, write.verdict) == ("p2pBandwidthLatencyTest", "low")
    assert write.value.startswith("120 to 371 GB/s at ")
    assert "expected by" in write.against
    (two,) = read((FOLDER / "two-hosts-nccl-tests.txt").read_bytes()).measured
    assert two.what == "all gather busbw, 4 ranks on 2 hosts"
    assert (two.verdict, two.against[:31]) == ("no reference", "between hosts the network decid")


def test_a_healthy_twin_gives_no_finding() -> None:
    text = MIXED.decode()
    for control in ("ReqRedir", "CmpltRedir"):
        text = text.replace(f"{control}+ ", f"{control}- ")
    text = text.replace("Width x8 (downgraded)", "Width x16 (ok)")
    text = text.replace("21.01      3", "21.01      0").replace("3 FAILED", "0 OK")
    text = "\n".join(line for line in text.split("\n") if "NCCL WARN" not in line)
    harm = [f.id for f in read(text.encode()).findings if f.severity in ("broken", "slow")]
    assert harm == []


def test_outputs_alone_are_enough() -> None:
    log = read((FOLDER / "p100-plx-vvv.txt").read_bytes())
    assert not log.log.empty
    assert [finding.id for finding in log.findings] == ["acs-redirect", "pcie-width"]


def test_nothing_is_looked_for_where_nobody_asked() -> None:
    log = read_log(io.BytesIO(MIXED), signs=known_signs())
    assert log.pasted is None


FILLER = b"step 7 of a model\n" * 60_000
"""More than a megabyte, so that what stands behind it is read apart."""


def test_outputs_far_behind_the_beginning_have_their_line_numbers() -> None:
    far = read(FILLER * 3 + MIXED + FILLER * 2 + b"hello\n" + MIXED)
    near, lines = read(MIXED), FILLER.count(b"\n")
    assert near.log.pasted is not None
    for place, first in enumerate((3 * lines, 5 * lines + MIXED.count(b"\n") + 1)):
        said = [(one.tool, one.first + first, one.lines) for one in near.log.pasted.sections]
        assert far.log.pasted is not None
        size = len(said)
        there = far.log.pasted.sections[place * size : (place + 1) * size]
        assert [(one.tool, one.first, one.lines) for one in there] == said
    assert far.log.outputs_until is None
    assert answer_about(far).document()["log"]["outputs_note"] is None


def test_where_the_search_for_outputs_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.topology.recorded.kept.KEPT_BYTES", len(FILLER) + 3)
    log = read(FILLER + FILLER + MIXED)
    assert log.log.outputs_until is not None
    assert f"from line {log.log.outputs_until} on" in "\n".join(texts(log_page(log).blocks, 100))
    told = answer_about(log).document()["log"]
    assert told["outputs_until"] == log.log.outputs_until
    assert told["outputs_note"].startswith(f"from line {log.log.outputs_until} on: only 4 MiB")


@pytest.mark.parametrize("form", text_formats(), ids=lambda form: form.id)
def test_no_output_goes_on_over_lines_that_are_left_out(form: Format) -> None:
    assert form.goes_on is not None
    assert not form.goes_on.match(GAP.decode())


def test_a_broken_output_is_named_beside_the_others() -> None:
    cut = MIXED.replace(b"GPU1\tPIX\t X ", b"GPU1\tPIX\t ZZ ")
    pasted = read(cut).log.pasted
    assert pasted is not None
    assert "broken nvidia-smi topo -m" in pasted.broken[0][1]


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
@settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_cut_and_shuffled_texts_are_read_or_left(path: Path, data: st.DataObject) -> None:
    text = path.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    junk = data.draw(st.binary(max_size=30))
    lines = data.draw(st.permutations(text.split(b"\n")[:40]))
    for hostile in (text[start:end], text[:start] + junk + text[start:], b"\n".join(lines)):
        pasted = read_pasted(hostile, "hostile")
        if pasted is not None:
            Node(pasted.snapshot).matrix  # noqa: B018 - made without an error


TEXTS = [
    path
    for folder in ("pasted", "nvidia-smi", "nvidia-public", "amd-public", "rocm-smi-mi250x")
    for path in sorted((RECORDINGS / folder).iterdir())
]


def told_by_both(path: Path, text: bytes) -> tuple[set[tuple[object, ...]], ...]:
    """What `gputop check` and `gputop log` say of one text, by rule, devices and severity."""
    path.write_bytes(text)
    snapshot = load([str(path)]).snapshot
    found = diagnose(Case(Node(snapshot).decide())).findings
    counted = [f for f in found if f.severity is not BY_DESIGN and f.id not in UNSEEN]
    said = [f for f in read(text).findings if f.devices or f.id in {f.id for f in counted}]
    return tuple({(f.id, f.devices, f.severity) for f in found} for found in (counted, said))


@pytest.mark.parametrize("path", share(TEXTS, 3), ids=lambda path: path.stem)
def test_a_text_gives_a_log_the_findings_of_a_check(path: Path, tmp_path: Path) -> None:
    text = path.read_bytes()
    if read_log(io.BytesIO(text), name=path.name, outputs=True).pasted is None:
        return  # no output of a tool that stands in logs
    checked, logged = told_by_both(tmp_path / path.name, text)
    assert checked == logged


@pytest.mark.parametrize(
    ("name", "well", "sick"),
    [
        ("h200-load-table.txt", b"Off |                    0 |", b"Off |                    3 |"),
        (
            "l40s-q.txt",
            b"DRAM Uncorrectable                         : 0",
            b"DRAM Uncorrectable                         : 3",
        ),
    ],
)
def test_an_ecc_error_is_told_by_both(name: str, well: bytes, sick: bytes, tmp_path: Path) -> None:
    text = (RECORDINGS / "nvidia-smi" / name).read_bytes()
    assert well in text
    checked, logged = told_by_both(tmp_path / name, text.replace(well, sick))
    assert "ecc-uncorrected" in {row[0] for row in checked}
    assert checked == logged
