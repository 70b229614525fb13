"""Every fix of every row and of every possible cause says what to do, and where the order is a
command it is one that can be typed."""

from __future__ import annotations

import re

from gputop.topology.diagnosis.mechanism.decode import operations
from gputop.topology.diagnosis.symptoms.explain import table
from tests.support.places import ROOT

EMPTY = re.compile(
    r"(?i)\bwhatever\b|\bcauses below\b|^(?:see|check|look at) (?:it|that)\b|^\W*$|\bTODO\b"
)
SETTINGS = re.compile(
    r"\b(?:NCCL|UCX|NVSHMEM|TORCH|CUDA|GLOO|FI|RCCL|HSA|PYTORCH)_[A-Z0-9_]+=(\S*)"
)

HARSH = re.compile(
    r"\b(?:reset|reboot|power-cycle|power (?:the host )?off|modprobe -r|isolate multi-user"
    r"|restart (?:of )?(?:openibd|the NIC)|-mig 0)\b"
)
SAYS_WHOM = re.compile(
    r"\b(?:drain|no job|no program|nothing|ends?|stop (?:all|these)|cuts all|administrator)\b", re.I
)
"""What a fix that takes GPUs or a network away says: who is hit, or whose it is."""
ALL_GPUS = re.compile(r"--gpu-reset(?![ {]*-i|\" in)")
MEANT = re.compile(r"nothing uses|[Dd]rain|[Ss]top all|End all")


def _fixes() -> list[tuple[str, str]]:
    rows = [(row.id, fix) for row in table() for fix in row.fix]
    rows += [(row.id, one.fix) for row in table() for one in row.candidate]
    return rows + [(one.does, cause.fix) for one in operations() for cause in one.cause]


def test_every_row_says_what_to_do() -> None:
    assert {ident for ident, _ in _fixes()} >= {row.id for row in table()}
    assert not [(ident, fix) for ident, fix in _fixes() if EMPTY.search(fix)]
    assert not [(ident, fix) for ident, fix in _fixes() if len(fix.split()) < 2 and fix != "none"]


def test_a_setting_in_a_fix_has_a_value() -> None:
    unset = [
        (ident, fix)
        for ident, fix in _fixes()
        for value in SETTINGS.findall(fix)
        if value.strip("\"'`,.;:()") == ""
    ]
    assert not unset


def test_what_takes_gpus_or_a_network_away_says_whom_it_hits() -> None:
    silent = [fix for _, fix in _fixes() if HARSH.search(fix) and not SAYS_WHOM.search(fix)]
    assert not silent


def test_a_command_that_resets_all_gpus_is_meant_to() -> None:
    told = [
        (path.name, text[max(found.start() - 300, 0) : found.end()])
        for folder in ("topology/diagnosis/rules", "topology/hardware/faults")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml")
        for text in [path.read_text()]
        for found in ALL_GPUS.finditer(text)
    ]
    assert told
    assert not [name for name, around in told if not MEANT.search(around)]
