"""`gputop cost`: what it says of known nodes, and of wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputop.__main__ import run

Captured = pytest.CaptureFixture[str]


def document(capsys: Captured, *words: str) -> dict[str, Any]:
    assert run(["cost", *words, "--json"]) in (0, 1)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_page_names_the_model_the_best_layout_and_the_ridge(capsys: Captured) -> None:
    assert run(["cost", "llama-3-8b", "--demo", "hgx-h100-8", "--seq", "8192"]) == 0
    out = capsys.readouterr().out
    assert "8.03 billion parameters" in out
    assert "720 of 989 TFLOP/s" in out
    rows = [line for line in out.splitlines() if "products are the limit" in line]
    assert rows[0].split()[-5:-3] == ["295", "248"]


def test_tensor_parallelism_over_pcie_costs_more_than_it_saves(capsys: Captured) -> None:
    found = document(capsys, "Llama 3 8B", "--demo", "pcie-l40s-8")
    assert any("costs more than it saves" in note for note in found["notes"])
    assert found["layouts"][0]["tp"] == 1
    assert found["basis"] == "estimate"
    (wide,) = [one for one in found["layouts"] if one["tp"] == 8]
    assert wide["communication"][0]["exposed_s"] > wide["products_s"]


def test_nodes_without_room_say_what_is_too_large(capsys: Captured) -> None:
    assert run(["cost", "Llama 3 405B", "--demo", "hgx-h100-8"]) == 1
    out = capsys.readouterr().out
    assert "too large" in out
    assert "of which weights, gradients and optimizer are" in out


def test_a_given_layout_is_the_only_one(capsys: Captured) -> None:
    found = document(capsys, "Llama 3 70B", "--demo", "mi300x-8", "--layout", "tp=4,dp=2")
    assert [(one["tp"], one["dp"]) for one in found["layouts"]] == [(4, 2)]


def test_experts_are_exchanged_by_all_to_all(capsys: Captured) -> None:
    found = document(capsys, "mixtral 8x7b", "--demo", "mi300x-8", "--layout", "ep=8")
    names = {part["what"] for one in found["layouts"] for part in one["communication"]}
    assert "experts: all-to-all" in names
    assert found["active_parameters"] < found["parameters"] / 3


def test_a_config_file_is_read(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps(
            {
                "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
                "num_attention_heads": 8, "intermediate_size": 4096, "vocab_size": 32000,
            }
        ),
        encoding="utf-8",
    )  # fmt: skip
    found = document(capsys, str(file), "--demo", "dgx-1v")
    assert found["model"] == "config.json"
    assert any("FP16" in one for one in found["assumptions"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["llama 9"], 64, "no model and no file is called"),
        (["Llama 3 8B", "--layout", "tp=0"], 64, "write tp=8"),
        (["Llama 3 8B", "--layout", "tp=2,tp=2"], 64, "each once"),
        (["Llama 3 8B", "--layout", "tp=16"], 64, "does not divide the 8 that there are"),
        (["Llama 3 8B", "--layout", "tp=3"], 64, "does not divide the 8"),
        (["Llama 3 8B", "--layout", "tp=2,pp=2,dp=4,cp=1"], 64, "does not divide the 8"),
        (["Llama 3 8B", "--layout", "ep=2"], 64, "no experts"),
        (["Llama 3 8B", "--layout", "pp=8", "--nodes", "8", "--zero", "4"], 64, "--zero"),
        (["GPT-2", "--layout", "tp=8"], 64, "12 heads cannot be divided by tp=8"),
    ],
)
def test_wrong_input_is_one_clear_line(
    capsys: Captured, words: list[str], code: int, said: str
) -> None:
    assert run(["cost", *words, "--demo", "hgx-h100-8"]) == code
    err = capsys.readouterr().err.strip()
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_no_config_cannot_be_used(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": chr(27) + "[31mmamba"}), encoding="utf-8")
    assert run(["cost", str(file), "--demo", "hgx-h100-8"]) == 3
    err = capsys.readouterr().err
    assert "known are llama" in err
    assert "\x1b" not in err


def test_a_node_without_gpus_cannot_tell(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    assert run(["snapshot", "--demo", "hgx-h100-8", "-o", str(file)]) == 0
    bare = json.loads(file.read_text(encoding="utf-8"))
    bare["machine"]["gpus"], bare["readings"]["gpus"] = [], []
    file.write_text(json.dumps(bare), encoding="utf-8")
    assert run(["cost", "GPT-2", "--from", str(file)]) == 3
    assert "no GPU here" in capsys.readouterr().err
