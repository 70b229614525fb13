"""docs/codes.md, made of the tables: `python -m tests.support.codes` writes it."""

from __future__ import annotations

from gputop.topology.diagnosis.mechanism.codes import Family, codes
from gputop.topology.diagnosis.mechanism.decode import operations

from .places import ROOT

PATH = ROOT / "docs" / "codes.md"
HEAD = """# Operations and codes in lines about failures

`log` and `--from` decode a line about a failure in words that no row knows: the operation
that it names gives the layer and who can be guilty, its code says what that operation ran into.
Possible causes stand in an order, by what the rest of the text says for and against each.

Both tables are made of [the files](../topology/diagnosis/mechanism) by `python -m
tests.support.codes`. Codes are those of `cuda.h`, `driver_types.h`, `hip_runtime_api.h`, `nccl.h`,
`infiniband/verbs.h`, `rdma/fi_errno.h` and `nvml.h`; those of errno and of signals are the system's
own, of which this table has the ones with a sentence of ours.
"""


def document() -> str:
    """The whole page."""
    entries = operations()
    causes = sum(len(one.cause) for one in entries)
    lines = [HEAD, f"## Operations: {len(entries)}, with {causes} possible causes", ""]
    lines += ["| layer | what fails | possible causes | sources |", "| --- | --- | --- | --- |"]
    for one in entries:
        named = " ".join(cause.cause for cause in one.cause)
        lines.append(_row(one.layer, one.does, named, "; ".join(one.sources)))
    told = {
        family: [code for code in numbered.values() if code.meaning]
        for family, numbered in codes().items()
    }
    lines += ["", f"## Codes: {sum(map(len, told.values()))}"]
    for family in Family:
        lines += ["", f"### {family}: {len(told[family])}", ""]
        lines += ["| number | name | says |", "| --- | --- | --- |"]
        lines += [_row(str(code.number), code.name, code.meaning) for code in told[family]]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PATH.write_text(document())
