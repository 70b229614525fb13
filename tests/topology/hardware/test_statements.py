"""Figures with a source: at least as many as promised, each of a model and a key that exist."""

from __future__ import annotations

import pytest

from gputop.topology.hardware.specs import own_skus, table
from gputop.topology.hardware.statements import backing, counted, figures_of, statements
from tests.support.figure_counts import PAGE, page
from tests.tables import hold

LEAST = 600


def test_there_are_as_many_figures_as_promised() -> None:
    total = counted()
    assert total.stated + total.measured >= LEAST
    assert total.borne_out > 0


def test_the_page_of_counts_is_the_one_that_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_statement_is_of_a_model_and_has_a_source() -> None:
    said = table("statements")["sku"]
    assert said.keys() <= own_skus().keys()
    for sources in said.values():
        assert sources.keys() <= table("specs")["sources"].keys()


def _most_statements_agree_with_the_figure_in_use(sku: str) -> None:
    far = [
        (key, one.value, value)
        for key, value in figures_of(sku)
        for one in backing(sku, key, value).differ
        if not 0.49 <= one.value / value <= 2.01  # AMD's matrix units double some rates
    ]
    known = table("specs")["sku"][sku].get("unconfirmed", ())
    assert not [key for key, *_ in far if key.removeprefix("tflops.") not in known], far


def test_no_statement_is_off_by_a_factor_of_two() -> None:
    hold(_most_statements_agree_with_the_figure_in_use, own_skus())


@pytest.mark.parametrize(
    ("sku", "key", "sources"), [("H100-SXM", "hbm_gbps", 2), ("H100-SXM", "tflops.bf16", 2)]
)
def test_a_fact_of_two_sources_is_borne_out(sku: str, key: str, sources: int) -> None:
    found = backing(sku, key, dict(figures_of(sku))[key])
    assert found.enough
    assert len(found.agree) >= sources


def test_what_no_source_here_says_is_borne_out_by_none() -> None:
    assert not backing("H100-SXM", "tdp_w_of_nothing", 1.0).agree
    assert not statements("no such model")
