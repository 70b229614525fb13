"""The example of each rule is what the rule says today."""

from __future__ import annotations

import msgspec

from gputop.checking.runs import all_rules
from gputop.topology.diagnosis.examples import PATH, examples
from tests.support.rule_examples import chosen, document, of_kernel_texts, of_runs

UNHEARD = ("*",)


def test_every_rule_has_an_example_and_no_other_has_one() -> None:
    assert list(examples()) == [rule.id for rule in all_rules()]
    for name, one in examples().items():
        assert one.severity in one.severities, name
        assert one.machine, name
        assert one.consequence, name
        assert one.evidence, name


def test_the_file_is_as_it_is_written() -> None:
    assert PATH.read_text(encoding="utf-8") == document(examples())


def test_examples_of_the_kernel_s_log_and_of_runs_are_current() -> None:
    """Those of sick machines are compared where the machines are examined, in test_rules.py."""
    used = {one.machine for one in examples().values()}
    told = chosen((*of_kernel_texts(used), *of_runs()))
    assert len(told) > 30
    for name, one in told.items():
        known = examples()[name]
        assert set(one.severities) <= set(known.severities)
        assert msgspec.structs.replace(one, severities=known.severities) == known
