"""`gputop rules` and `gputop rule`: all rules, one rule, an unknown one, and the pages of docs/."""

from __future__ import annotations

import json

import pytest

from gputop.checking.runs import all_rules
from tests.support.command import gputop
from tests.support.record_pages import PAGES, stale


def test_all_rules_are_listed_with_the_worst_that_they_say() -> None:
    done = gputop("rules")
    assert done.returncode == 0
    assert "at worst     what is looked for" in done.stdout.splitlines()[0]
    assert max(map(len, done.stdout.splitlines())) <= 80
    document = json.loads(gputop("rules", "--json").stdout)
    assert document["schema"] == "gputop.rules/1"
    assert [rule["id"] for rule in document["rules"]] == [rule.id for rule in all_rules()]
    assert all(rule["severities"] for rule in document["rules"])


def test_a_rule_says_why_proof_disproof_example_and_sources() -> None:
    done = gputop("rule", "ACS_redirect")
    assert done.returncode == 0
    for part in ("How bad: broken", "Why it is bad", "What proves it", "What would disprove it",
                 "For example", "Sources"):  # fmt: skip
        assert part in done.stdout
    rule = json.loads(gputop("rule", "acs-redirect", "--json").stdout)["rule"]
    assert rule["severities"][0] == rule["example"]["severity"] == "broken"
    assert rule["sources"]
    assert rule["disproof"]


def test_an_unknown_rule_is_wrong_usage_with_what_is_like_it() -> None:
    done = gputop("rule", "gpu-lots\x1b[31m")
    assert done.returncode == 64
    assert "did you mean gpu-lost" in done.stderr
    assert "\x1b[31m" not in done.stderr
    assert done.stdout == ""


def test_a_symptom_of_a_log_is_called_so() -> None:
    done = gputop("rule", "p2p-off-nvlink")
    assert done.returncode == 64
    assert "p2p-off-nvlink is no rule: it is a symptom in a log. The driver refuses" in done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_of_the_records_are_current(name: str) -> None:
    assert stale((name,)) == [], "python -m tests.support.record_pages"
