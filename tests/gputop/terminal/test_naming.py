"""Names of result files."""

from __future__ import annotations

import pytest

from gputop.terminal.naming import job_of, named


def test_host_and_job() -> None:
    assert str(named("out/%j/%n.json", "g1", "4711")) == "out/4711/g1.json"
    assert str(named("%n-%j-%%.json", "g1#0", None)) == "g1#0-none-%.json"


def test_a_name_leads_to_no_other_folder() -> None:
    assert str(named("out/%n.json", "../../etc/g1\n", None)) == "out/.._.._etc_g1_.json"


@pytest.mark.parametrize("template", ["%h.json", "out/%"])
def test_another_letter_stands_for_nothing(template: str) -> None:
    with pytest.raises(ValueError, match="stands for nothing"):
        named(template, "g1", None)


def test_the_job_is_that_of_the_scheduler() -> None:
    assert job_of({"TORCHELASTIC_RUN_ID": "t", "SLURM_JOB_ID": "17"}) == "17"
    assert job_of({"SLURM_JOB_ID": ""}) is None
