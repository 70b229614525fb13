"""Our figures against those that others worked out or measured; the table was written first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.cost import bounds, memory, work
from gputop.topology.cost.models import model_named
from gputop.topology.cost.shape import Biases, ModelShape
from gputop.topology.cost.work import WHOLE, Recompute
from gputop.topology.toml import tomllib

TABLE = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
SEQUENCE, VOCABULARY = 2048, 51200
Row = dict[str, Any]


def _model(row: Row) -> ModelShape:
    found = model_named(row["model"])
    assert found is not None
    return found


def _gpt(row: Row) -> ModelShape:
    hidden, layers, heads = row["shape"]
    return ModelShape(
        name="GPT", layers=layers, hidden=hidden, heads=heads, kv_heads=heads,
        head_dim=hidden // heads, feed_forward=4 * hidden, vocabulary=VOCABULARY,
        gated=False, tied=True, biases=Biases.ALL, positions=SEQUENCE,
    )  # fmt: skip


def _work(row: Row) -> work.TokenWork:
    return work.work_of(_gpt(row), SEQUENCE, WHOLE, Recompute(row.get("recompute", "none")))


def _states(row: Row) -> Any:
    return memory.MIXED.on_one(row["parameters"], row.get("zero", 0), row.get("dp", 1))


def _days(row: Row) -> Any:
    rate = row["gpus"] * row["tflops"] * 1e12
    return _work(row).hardware * row["tokens"] / rate / 86400


def _used(row: Row, flop: float) -> Any:
    rate = row["sequences"] * SEQUENCE / row["seconds"]
    return work.utilisation(flop, rate, row["gpus"], row["peak"] * 1e12)


def _used_of_tokens(row: Row) -> Any:
    scores = 12 * row["layers"] * row["attention"] * row["sequence"]
    flop = 6 * row["parameters"] + scores
    return work.utilisation(flop, row["tokens_per_s"], row["gpus"], row["peak"] * 1e12)


def _kept(row: Row) -> Any:
    shape = _gpt(row)
    again = Recompute(row["recompute"])
    if again is Recompute.FULL:
        return memory.input_bytes(shape) / shape.hidden
    found = memory.kept_by_gpt(shape, SEQUENCE).on_one(row["tp"], row["sp"], again)
    return found / shape.hidden


def _saved(row: Row) -> Any:
    kept = memory.kept_by_gpt(_gpt(row), SEQUENCE)
    all_of_it, rest = (kept.on_one(1, False, how) for how in (Recompute.NONE, Recompute.SELECTIVE))
    return 1 - rest / all_of_it


def _more_flop(row: Row) -> Any:
    found = _work(row | {"recompute": "selective"})
    return found.hardware / found.model - 1


def _whole_activations(row: Row) -> Any:
    shape = _gpt(row)
    kept = memory.kept_by_gpt(shape, row["sequence"]).on_one(1, False, Recompute.SELECTIVE)
    return kept * shape.layers * row["sequence"] * row["sequences"]


def _training(row: Row) -> Any:
    return work.work_of(_model(row), row["sequence"]).model * row["tokens"]


def _part(row: Row) -> Any:
    shape = _model(row)
    parts = {
        "feed forward": shape.dense_feed_forward,
        "attention": shape.attention,
        "vocabulary": shape.embedding + shape.head,
    }
    return parts[row["part"]]


def _tokens_of_gpu(row: Row) -> Any:
    rates = row["tflops"] * 1e12, row["gbs"] * 1e9
    if row["layout"] == "ep":
        # The seed divides by the ways that experts are spread over nodes as well.
        return bounds.tokens_for_experts(*rates, row["experts"], row["active"]) / row["ways"]
    if row["layout"] == "fsdp":
        return bounds.tokens_for_sharded(*rates)
    return bounds.tokens_for_data_parallel(*rates)


ASKED: dict[str, Callable[[Row], Any]] = {
    "parameters": lambda row: _model(row).parameters,
    "active": lambda row: _model(row).active,
    "parameters of a GPT": lambda row: _gpt(row).parameters,
    "days": _days,
    "bubble": lambda row: bounds.bubble(row["stages"], row["micro_batches"], row["interleave"]),
    "states": _states,
    "states in 16 bits alone": lambda row: memory.PURE.on_one(row["parameters"]),
    "bytes sent for parameters": lambda row: memory.passes_over_the_wire(row["zero"]),
    "activations of a layer": _kept,
    "share that selective recompute saves": _saved,
    "more FLOP of selective recompute": _more_flop,
    "activations of a whole model": _whole_activations,
    "mfu": lambda row: _used(row, _work(row).model),
    "hfu": lambda row: _used(row, _work(row).hardware),
    "mfu of tokens": _used_of_tokens,
    "tokens a second": lambda row: row["sequences"] * row["sequence"] / row["seconds"],
    "training FLOP": _training,
    "parameters by part": _part,
    "KV bytes of a token": lambda row: memory.kv_bytes(_model(row), row["bytes"]),
    "all-to-all of a decoded token": lambda row: bounds.exchange_seconds(
        row["tokens"], row["hidden"], row["copies"], row["gbs"] * 1e9, 3
    ),
    "ridge": lambda row: bounds.ridge(row["tflops"] * 1e12, row["gbs"] * 1e9),
    "tokens of a GPU": _tokens_of_gpu,
    "ways of tensor parallelism": lambda row: bounds.tensor_ways(
        row["tflops"] * 1e12, row["gbs"] * 1e9, row["ranks"], row["feed_forward"]
    ),
    "seconds of an all-gather": lambda row: bounds.gather_seconds(
        row["bytes"], row["ranks"], row["gbs"] * 1e9
    ),
}
ROWS = [
    pytest.param(group["ask"], row, id=f"{group['source']} {group['ask']} {number}")
    for group in TABLE["figure"]
    for number, row in enumerate(group["rows"])
]


@pytest.mark.parametrize(("ask", "row"), ROWS)
def test_ours_comes_near_the_published_figure(ask: str, row: Row) -> None:
    ours, near = ASKED[ask](row), pytest.approx(row["figure"], rel=row["within"])
    if "differs" in row:
        assert ours != near
        assert ours == pytest.approx(row["ours"], rel=1e-3)
    else:
        assert ours == near


def test_every_figure_has_a_source() -> None:
    assert {group["source"] for group in TABLE["figure"]} <= set(TABLE["sources"])
    assert len(ROWS) >= 60
