"""`gputop cost`: what it says of known nodes, and of wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers.cost import CostRequest, answer
from gputop.exits import USAGE
from gputop.topology.model.snapshot import EnvironmentVariable
from tests.support.command import gputop_here
from tests.support.snapshots import demo_node

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


def test_the_model_may_stand_behind_an_option() -> None:
    front = gputop_here("cost", "Llama 3 8B", "--demo", "hgx-h100-8").stdout
    assert gputop_here("cost", "--model", "Llama 3 8B", "--demo", "hgx-h100-8").stdout == front
    for words in (["cost"], ["cost", "gpt2", "--model", "gpt2"]):
        done = gputop_here(*words)
        assert (done.returncode, len(done.stderr.splitlines())) == (USAGE, 1)


def test_another_name_of_a_shape_is_told(capsys: Captured) -> None:
    taken = "DeepSeek-R1 has the shape of DeepSeek V3"
    assert taken in document(capsys, "DeepSeek-R1", "--demo", "hgx-h100-8")["assumptions"]
    own = document(capsys, "deepseek-v3", "--demo", "hgx-h100-8")["assumptions"]
    assert not any("shape of" in one for one in own)


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
    assert "It fits from 128 GPUs like these on" in out


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
        (["GPT-2", "--layout", "pp=2", "--interleave", "5"], 64, "whose layers 5 groups divide"),
        (["Mixtral"], 64, "'Mixtral' may be Mixtral 8x7B or Mixtral 8x22B"),
        (["llama", "70b"], 64, "'llama 70b' may be Llama 2 70B or Llama 3 70B"),
        (["Llama 3 8B", "--layout", "tp=0"], 64, "write tp=8"),
        (["Llama 3 8B", "--layout", "tp=2,tp=2"], 64, "each once"),
        (["Llama 3 8B", "--layout", "tp=16"], 64, "does not divide the 8 that there are"),
        (["Llama 3 8B", "--layout", "tp=3"], 64, "does not divide the 8"),
        (["Llama 3 8B", "--layout", "tp=2,pp=2,dp=4,cp=1"], 64, "does not divide the 8"),
        (["Llama 3 8B", "--layout", "ep=2"], 64, "no experts"),
        (["Llama 3 8B", "--layout", "pp=8", "--nodes", "8", "--zero", "4"], 64, "--zero"),
        (["Llama 3 8B", "--observed-step", "1s"], 64, "needs --layout"),
        (["Llama 3 8B", "--layout", "dp=8", "--observed-step", "soon"], 64, "1.9s or 350ms"),
        (["Llama 3 8B", "--layout", "pp=2", "--observed-step", "1s"], 64, "is about one"),
        (["Llama 3 8B", "--serve", "--layout", "tp=8"], 64, "--serve is about no training"),
        (["GPT-2", "--layout", "tp=8"], 64, "12 heads cannot be divided by tp=8"),
    ],
)
def test_wrong_input_is_one_clear_line(
    capsys: Captured, words: list[str], code: int, said: str
) -> None:
    assert run(["cost", *words, "--demo", "hgx-h100-8"]) == code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in last
    assert last.startswith("gputop: ")


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


def test_an_observed_step_scales_the_other_layouts(capsys: Captured) -> None:
    words = ("Llama 3 8B", "--demo", "hgx-h100-8", "--accum", "4", "--micro", "1")
    plain = document(capsys, *words, "--layout", "dp=8")["layouts"][0]["step_s"]
    found = document(capsys, *words, "--layout", "dp=8", "--observed-step", f"{1.5 * plain:.4f}s")
    assert found["calibration"]["slower"] == pytest.approx(1.5, rel=0.02)
    steps = {one["dp"]: one["step_s"] for one in found["layouts"] if one["tp"] == one["pp"] == 1}
    assert steps[8] == pytest.approx(1.5 * plain, rel=1e-3)
    assert len(found["layouts"]) > 5


def test_serving_has_a_row_for_each_width(capsys: Captured) -> None:
    assert run(["cost", "Llama 3 70B", "--demo", "hgx-h100-8", "--serve"]) == 0
    assert "328 kB of KV a token" in capsys.readouterr().out
    found = document(capsys, "Llama 3 70B", "--demo", "hgx-h100-8", "--serve")
    assert [one["tp"] for one in found["serving"]] == [1, 2, 4, 8]
    assert found["serving"][0]["decode_s"] is None
    assert found["serving"][3]["kv_to_node_s"] > 0


def test_a_rack_is_joined_by_nvlink(capsys: Captured) -> None:
    words = ("Llama 3 405B", "--demo", "gb200-nvl72-tray", "--nodes", "18", "--layout", "tp=8")
    found = document(capsys, *words)
    wires = {part["wire"] for one in found["layouts"] for part in one["communication"]}
    assert "the network" not in wires
    assert any("IMEX" in one for one in found["assumptions"])


def test_tensor_parallelism_in_eager_pytorch_is_said_to_be_a_guess(capsys: Captured) -> None:
    found = document(capsys, "Llama 3 8B", "--demo", "hgx-h100-8", "--eager")
    assert any("bound by launches" in note for note in found["notes"])


def test_without_p2p_the_variable_that_changes_it_is_named() -> None:
    snapshot = demo_node("hgx-h100-8").snapshot
    off = EnvironmentVariable(name="NCCL_P2P_DISABLE", value="1", origin="environment")
    given = msgspec.structs.replace(snapshot, environment=(off,))
    found = answer(CostRequest(given=given, names=("Llama 3 8B",), layout="tp=8"))
    (said,) = [note for note in found.notes if note.startswith("NCCL_P2P_DISABLE=1 is set here")]
    assert float(said.split(" takes ")[1].split()[0]) < 0.3


def test_set_and_nccl_are_as_if_they_were_so(capsys: Captured) -> None:
    words = ("Llama 3 8B", "--demo", "hgx-h100-8", "--layout", "tp=8")
    plain = document(capsys, *words)["layouts"][0]
    assert document(capsys, *words, "--nccl", "2.28")["layouts"][0] == plain
    off = document(capsys, *words, "--set", "NCCL_P2P_DISABLE=1", "--nccl", "nccl-2.30.7")
    assert off["layouts"][0]["step_s"] > 3 * plain["step_s"]
    assert run(["cost", *words, "--nccl", "zwei"]) == 64
    assert "is no version" in capsys.readouterr().err


def test_what_a_replica_sends_hides_from_so_many_tokens_on(capsys: Captured) -> None:
    found = document(capsys, "Llama 3 8B", "--demo", "pcie-l40s-8", "--seq", "2048")["layouts"]
    timed = [one for one in found if one["step_s"] is not None]
    assert any(one["hides_tokens"] is None and one["dp"] == 1 for one in timed)
    for one in (one for one in timed if one["dp"] > 1):
        (sent,) = [part for part in one["communication"] if part["what"].startswith("data: ")]
        computed = one["products_s"] + one["attention_s"] + one["between_s"]
        longer = one["hides_tokens"] > one["replica_tokens"]
        assert longer == (sent["seconds"] > computed)
        passes = 1 if one["zero"] == 3 else one["accumulation"]
        assert one["replica_tokens"] == passes * one["micro"] * 2048
