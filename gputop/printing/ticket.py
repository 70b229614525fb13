"""Findings as a ticket in Markdown, for the vendor or the team that runs the node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.printing.render import texts
from gputop.terminal.clean import clean_block
from gputop.topology.model.page import Block, Findings, Text

if TYPE_CHECKING:
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.severity import Verdict

_ATTACH = "Attach the file that `gputop snapshot -o node.json` writes: it holds all that was read."
_INVENTED = "A demo of gputop: the node and its figures are invented."


def ticket(
    node: str, verdict: Verdict, findings: Iterable[Finding], *, invented: bool = False
) -> str:
    """A ticket on findings. `node`: what it is, in a line."""
    found = tuple(findings)
    nothing = Text("Nothing that needs anybody was found.")
    blocks: tuple[Block, ...] = (Text(node), Findings(found, whole=True) if found else nothing)
    return report(verdict, blocks, invented=invented)


def report(
    verdict: Verdict, blocks: Iterable[Block], drawing: str = "", *, invented: bool = False
) -> str:
    """A heading with the verdict, then the blocks, and a drawing of characters.

    What was read outside stands in a fence, where nothing is markup.
    """
    text = _fenced("\n".join(texts(blocks, None)))
    below = f"\n\n{_fenced(clean_block(drawing).strip())}" if drawing else ""
    return (
        f"### {verdict.sign} {verdict}\n\n{text}{below}\n\n{_INVENTED if invented else _ATTACH}\n"
    )


def _fenced(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}text\n{text}\n{fence}"
