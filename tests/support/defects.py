"""docs/defects.md, made of the rows: `python -m tests.support.defects` writes it."""

from __future__ import annotations

from collections import Counter

from gputop.topology.diagnosis.defects.table import Defect, defects

from .places import ROOT

PATH = ROOT / "docs" / "defects.md"
HEAD = """# Known defects by version

`check` holds the versions that it finds (driver, NCCL or RCCL, kernel,
firmware of NICs) against this table; `log` holds those that a text names.

- A version alone is a notice at most, and only where all else that the row needs is known.
- A row that needs something of the program ("only ...") is said where a line of its own stands in
  the text. Then the defect is a possible cause, with the fix.
- `gputop explain --against 2.30.7` names the defects that another version does not have.

The table is made of [the rows](../topology/diagnosis/defects) by `python -m tests.support.defects`.
Sources are release notes, change logs and threads; `#` alone is one of NVIDIA/nccl.
"""


COLUMNS = ("versions", "what it does", "needs", "without another version", "source")


def versions(row: Defect) -> str:
    """Which versions have it."""
    since = f"from {row.since} on" if row.since else "up to"
    if not row.fixed:
        return since if row.since else "all known"
    before = " and ".join(row.fixed)
    return f"{since}, before {before}" if row.since else f"before {before}"


def needs(row: Defect) -> str:
    """What must be true besides."""
    parts = [
        *(f"one of {', '.join(each)}" for each in (row.gpu, row.model) if each),
        *row.needs,
        " or ".join(row.one_of),
        *row.beside,
        " or ".join(f"`{one}`" for one in row.set),
        f"only {row.only}" if row.only else "",
    ]
    return "; ".join(filter(None, parts)) or "nothing more"


def document() -> str:
    """The whole page."""
    counts = Counter(row.product for row in defects())
    said = [f"| {product} | {count} |" for product, count in counts.items()]
    lines = [HEAD, "| product | rows |", "| --- | --- |", *said]
    lines += [f"| all | {sum(counts.values())} |", ""]
    for product in counts:
        lines += [
            f"## {product}",
            "",
            "| versions | what it does | needs | without another version | source |",
        ]
        lines += ["| --- | --- | --- | --- | --- |"]
        for row in defects():
            if row.product is product:
                help_ = "; ".join(f"`{one}`" for one in row.workaround) or "-"
                cells = (versions(row), f"{row.harm}: {row.what} ({row.sureness})", needs(row))
                lines.append(f"| {' | '.join((*cells, help_, '; '.join(row.sources)))} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
