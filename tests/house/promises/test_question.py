"""A question is one file and one line: command, options, JSON and text follow."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

MODULE, NAMES = "gputop/answers/heat.py", "gputop/answers/__init__.py"


def test_a_question_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(MODULE, example(MODULE))
    checkout.add_line(
        NAMES,
        after='"doctor": "Say what gputop found on this machine, for a bug report.",',
        line=line(NAMES),
    )
    text, document, hot, helped, listed = checkout.gputop(
        "heat --demo dgx-1v",
        "heat --demo dgx-1v --json",
        "heat --demo dgx-1v --least 1000 --json",
        "heat --help",
        "--help",
    )
    assert text.returncode == 0, text.stderr
    assert len(text.stdout.splitlines()) == 9
    found = json.loads(document.stdout)
    assert list(found) == ["schema", "gputop", "source", "assumptions", "degrees"]
    assert found["schema"] == "gputop.heat/1"
    assert len(found["degrees"]) == 8
    assert json.loads(hot.stdout)["degrees"] == {}
    assert "--least" in helped.stdout
    assert "--from" in helped.stdout
    assert "heat" in listed.stdout
