"""What docs/adding.md promises of an NCCL version: one that changes nothing is one entry."""

from __future__ import annotations

import json

from gputop.topology.toml import tomllib
from tests.house.promises.worked_examples import example
from tests.support.copied_checkout import CopiedCheckout

TABLE = "topology/nccl/versions.toml"
UNTESTED = (
    '"the rules of NCCL {} were read from its source and are untested: '
    'no recording of that version was at hand", '
)
TUNING = '"the tuning rules of NCCL {} are those of {}, taken over and untested", '


def explained(checkout: CopiedCheckout, *versions: str) -> list[dict[str, object]]:
    """The prediction for a demo node with eight GPUs by each version, in JSON."""
    done = checkout.gputop(
        *(f"explain --demo hgx-h100-8 --nccl {version} --json" for version in versions)
    )
    assert [each.returncode for each in done] == [0] * len(versions), done
    return [json.loads(each.stdout) for each in done]


def said(document: object) -> str:
    """All of a document as text."""
    return json.dumps(document)


def test_a_version_that_behaves_like_an_older_one_is_one_entry(checkout: CopiedCheckout) -> None:
    (entry,) = tomllib.loads(example(TABLE))["version"]
    made_up, older = entry["number"], entry["after"].removeprefix("nccl-")
    (before,) = explained(checkout, made_up)
    assert f"no rules for NCCL {made_up}" in said(before)
    assert f"no tuning rules for NCCL {made_up}" in said(before)
    table = checkout.root / TABLE
    text = table.read_text()
    below = text.index('[[version]]\nlibrary = "rccl"')
    table.write_text(f"{text[:below]}{example(TABLE)}\n{text[below:]}")
    after, like = explained(checkout, made_up, older)
    assert "no rules for" not in said(after)
    assert "no tuning rules for" not in said(after)
    # The older one is compared with recordings, the made-up one is not.
    same = said(after)
    for untested in (UNTESTED.format(made_up), TUNING.format(made_up, older)):
        assert untested in same
        same = same.replace(untested, "")
    assert same.replace(made_up, older) == said(like)
