"""What CONTRIBUTING.md promises of an NCCL version: one that changes nothing is one entry."""

from __future__ import annotations

import json

from gputop.topology.nccl.versions import versions
from tests.support.copied_checkout import CopiedCheckout

NEWEST = [version for version in versions() if version.library == "nccl"][-1]
MADE_UP = "2.99.1"
ENTRY = f"""
[[version]]
library = "nccl"
number = "{MADE_UP}"
after = "nccl-{NEWEST.number}"
"""


def explained(checkout: CopiedCheckout, version: str) -> dict[str, object]:
    """The prediction for a demo node with eight GPUs, in JSON."""
    done = checkout.gputop("explain", "--demo", "hgx-h100-8", "--nccl", version, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def said(document: object) -> str:
    """All of a document as text."""
    return json.dumps(document)


def test_a_version_that_behaves_like_the_newest_one_is_one_entry(checkout: CopiedCheckout) -> None:
    before = explained(checkout, MADE_UP)
    assert f"no rules for NCCL {MADE_UP}" in said(before)
    assert f"no tuning rules for NCCL {MADE_UP}" in said(before)
    table = checkout.root / "topology/nccl/versions.toml"
    text = table.read_text()
    below = text.index('[[version]]\nlibrary = "rccl"')
    table.write_text(text[:below] + ENTRY.lstrip() + "\n" + text[below:])
    after = explained(checkout, MADE_UP)
    assert "no rules for" not in said(after)
    assert "no tuning rules for" not in said(after)
    assert f"NCCL {MADE_UP} were read from its source" in said(after)
    newest = explained(checkout, NEWEST.number)
    assert said(after).replace(MADE_UP, NEWEST.number) == said(newest)
