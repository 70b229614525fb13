"""The tables of docs/kernel-faults.md: `python -m tests.support.kernel_faults` writes them anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gputop.topology.hardware.faults.catalogue import KernelFault, faults, groups, rows
from gputop.topology.model.kernel_event import KernelSource
from gputop.topology.model.severity import CANNOT_TELL
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "kernel-faults.md"
HAND_WRITTEN = "## How many\n"
"""Where the text that people write ends."""
FATAL = {
    "always": "whole fabric", "fatal": "yes", "no": "no", "either": "by the line",
    "unsaid": "by the line",
}  # fmt: skip


def page(now: str) -> str:
    """The whole page, with the text that it has now before the tables."""
    head = now.partition(HAND_WRITTEN)[0]
    return "\n".join([head + HAND_WRITTEN, *_counts(), *_tables()]).rstrip() + "\n"


def _counts() -> Iterator[str]:
    kinds = {
        "Xid": list(faults(KernelSource.XID).values()),
        "SXid": list(faults(KernelSource.SXID).values()),
        "lines in words": _lines(),
    }
    yield from _table(
        "what | rows | broken | slow | notice | unknown",
        (
            (kind, len(table), *(harms[harm] for harm in ("broken", "slow", "notice", "unknown")))
            for kind, table in kinds.items()
            for harms in [Counter(map(_harm, table))]
        ),
    )
    words = sum(len(table["says"]) for table in rows("words")["words"])
    yield f"{len(rows('nvlink5')['nvlink5'])} forms of Xid 144 to 150, {words} words and bits,"
    yield f"{len(rows('actions')['action'])} things to do, {len(groups())} rules."
    yield ""


def _tables() -> Iterator[str]:
    actions, nvlink5 = rows("actions")["action"], rows("nvlink5")
    yield from _section(
        "What to do",
        "name | what | command",
        ((one["id"], one["text"], _code(one.get("command", ""))) for one in actions),
    )
    yield from _section(
        "Xid: GPUs",
        "Xid | name | means | part | harm | do | then | where | source",
        (
            (
                *(row.code, _code(row.name), row.says, row.unit, _harm(row), row.act, row.then),
                *(_where(row), row.source),
            )
            for row in faults(KernelSource.XID).values()
        ),
    )
    yield from _section(
        "Xid 144 to 150: units of NVLink 5",
        "Xid | unit | before 575 | since | STATUS | why | do | raised | then",
        (
            (
                *(one["xid"], " or ".join(map(_code, one["unit"])), one["v1"], one["v2"]),
                f"{one['status']:#010x}" if "status" in one else "any",
                nvlink5["reasons"].get(str(one.get("reason", "")), ""),
                *(one["act"], one.get("promoted", ""), one.get("then", "")),
            )
            for one in nvlink5["nvlink5"]
        ),
    )
    yield from _section(
        "SXid: NVSwitches",
        "SXid | name | means | fatal | harm | do | source",
        (
            (row.code, _code(row.name), row.says, FATAL[row.fatal], _harm(row), row.act, row.source)
            for row in faults(KernelSource.SXID).values()
        ),
    )
    yield from _section(
        "Lines in words",
        "as printed | means | part | harm | do | source",
        (
            (_code(row.shown[0]), row.told(), row.unit, _harm(row), _do(row), row.source)
            for row in _lines()
        ),
    )
    yield from _section(
        "Words and bits",
        "of | word | means | source",
        (
            (", ".join(table["of"]), _code(word), says, table["source"])
            for table in rows("words")["words"]
            for word, says in table["says"].items()
        ),
    )


def _section(title: str, heads: str, cells: Iterable[Iterable[object]]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from _table(heads, cells)


def _table(heads: str, cells: Iterable[Iterable[object]]) -> Iterator[str]:
    yield f"| {heads} |"
    yield "| " + " | ".join("---" for _ in heads.split(" | ")) + " |"
    for row in cells:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def _lines() -> list[KernelFault]:
    return [row for row in faults(KernelSource.LINE).values() if not row.only_adds]


def _harm(fault: KernelFault) -> str:
    return "unknown" if fault.severity is CANNOT_TELL else str(fault.severity)


def _where(fault: KernelFault) -> str:
    since = f"driver {fault.since} and later" if fault.since else ""
    before = f"before, {fault.before}" if fault.before else ""
    return "; ".join(filter(None, (fault.on, since, before)))


def _do(row: KernelFault) -> str:
    return "; ".join(filter(None, (row.act, row.then))) or " ".join(row.fix)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
