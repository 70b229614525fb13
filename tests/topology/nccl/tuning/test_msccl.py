"""What RCCL hands to MSCCL and MSCCL++, and under which conditions."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.decide.summary import choice_line, instead_line
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from tests.support.snapshots import demo_node

MIB = 1 << 20
NODES = {name: demo_node(name).snapshot for name in ("mi300x-8", "mi250x-8", "sick-mi300x-8")}


def predicted(version: str, demo: str = "mi300x-8", gpus: int = 8, **env: str) -> Prediction:
    node = NODES[demo]
    chosen = [gpu.address for gpu in node.machine.gpus[:gpus]]
    return predict(node, Settings(env), library=f"rccl-{version}", gpus=chosen)


def said(version: str, demo: str = "mi300x-8", gpus: int = 8, **env: str) -> str:
    found = predicted(version, demo, gpus, **env)
    return "; ".join(text for text in found.assumptions if "MSCCL" in text)


def sizes(found: Prediction) -> list[int]:
    """The sizes in MiB that MSCCL may run instead."""
    return [choice.bytes // MIB for choice in found.choices if choice.instead]


def test_what_the_files_of_2_21_5_are_for() -> None:
    text = said("2.21.5")
    assert "out of place LL below 512 KiB, Simple from 512 KiB to 16 MiB" in text
    assert "Simple from 512 KiB to 11 MiB, Simple above 14 MiB to 16 MiB" in text
    assert sizes(predicted("2.21.5")) == [1, 4, 16]


def test_later_files_go_to_20_mib_and_are_alike_in_place_and_out_of_place() -> None:
    text = said("2.27.7")
    assert "(LL below 512 KiB, Simple from 512 KiB to 20 MiB)" in text
    assert sizes(predicted("2.27.7")) == [1, 4, 16]


def test_a_default_build_of_2_28_3_has_neither() -> None:
    assert said("2.28.3") == (
        "nothing runs by MSCCL or MSCCL++: a default build of RCCL 2.28.3 has neither"
    )
    assert sizes(predicted("2.28.3")) == []


@pytest.mark.parametrize("version", ["2.21.5", "2.27.7", "2.28.3"])
def test_nothing_is_said_where_no_model_asks_for_it(version: str) -> None:
    assert said(version, RCCL_MSCCL_ENABLE="0") == ""
    assert said(version, "sick-mi300x-8") == ""
    assert said(version, "mi250x-8") == ""
    assert said(version, gpus=4) == ""


def test_a_model_that_says_no_is_overruled() -> None:
    assert "all-reduce runs by MSCCL's files" in said(
        "2.21.5", "mi250x-8", RCCL_MSCCL_FORCE_ENABLE="1"
    )
    few = said("2.21.5", gpus=4, RCCL_MSCCL_FORCE_ENABLE="1")
    assert "MSCCL's files" not in few
    assert "MSCCL++ comes first" in few


def test_mscclpp_is_in_a_default_build_of_2_21_5_alone() -> None:
    built = said("2.21.5")
    assert "was built with it (as it is by default)" in built
    assert "in a graph that is being captured it runs all-reduce and all-gather of up to 1 MiB" in (
        built
    )
    assert "MSCCL++" not in said("2.21.5", RCCL_MSCCLPP_ENABLE="0")
    assert "up to 64 KiB (RCCL_MSCCLPP_THRESHOLD)" in said("2.21.5", RCCL_MSCCLPP_THRESHOLD="65536")
    assert "MSCCL++ is in no default build of RCCL 2.27.7" in said("2.27.7")
    asked = said("2.27.7", RCCL_MSCCLPP_ENABLE="1")
    assert "with registered buffers or under RCCL_MSCCLPP_FORCE_ENABLE=1" in asked
    assert "of up to 16 MiB" in asked


def test_a_size_that_msccl_may_run_is_marked() -> None:
    found = predicted("2.27.7")
    lines = [choice_line(choice, 8) for choice in found.choices]
    assert [line.endswith(" *") for line in lines] == [True, True, True, False, False, False]
    assert instead_line(found.choices).startswith("* in its place MSCCL Simple")
    assert instead_line(predicted("2.28.3").choices) == ""
