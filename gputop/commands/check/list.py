"""`gputop check --list`: lists every rule and what it looks for."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import click

from gputop import __version__
from gputop.terminal.lines import print_json
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.hardware.terms import terms_for

_INDENT = "    "


def print_list(rules: Sequence[Rule], *, as_json: bool) -> None:
    """Print the id of each rule, what it looks for and needs, and limits that a site may set."""
    words = terms_for(None)
    if as_json:
        print_json(
            {
                "schema": "gputop.check-rules/1",
                "gputop": __version__,
                "source": [],
                "assumptions": [],
                "rules": [
                    {
                        "id": rule.id,
                        "peers": rule.family,
                        "title": words.fill(rule.title),
                        "evidence": words.fill(rule.evidence),
                        "disproof": rule.disproof_for((), words),
                        "thresholds": dict(rule.thresholds),
                        "sources": list(rule.sources),
                    }
                    for rule in rules
                ],
            }
        )
        return
    width = text_width(120)
    for rule in rules:
        limits = "; ".join(f"{name} = {value:g}" for name, value in rule.thresholds)
        click.echo(rule.id)
        texts = (
            words.fill(rule.title),
            words.fill(f"needs {rule.evidence}"),
            limits and f"limits: {limits}",
        )
        for text in texts:
            for line in textwrap.wrap(
                text, width, initial_indent=_INDENT, subsequent_indent=_INDENT + "  "
            ):
                click.echo(line)
