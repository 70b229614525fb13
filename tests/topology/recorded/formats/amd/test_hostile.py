"""amd-smi and rocm-smi: files that are broken, contradict themselves, or mean harm."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputop.topology.model.format import Format, FormatError
from gputop.topology.recorded.formats.amd import amd_smi, amd_smi_text, rocm_smi, rocm_smi_text
from gputop.topology.recorded.load import LoadError, load
from tests.topology.recorded.formats.amd.printed import MESH, MI300X_7, read


def test_two_gpus_with_one_address_are_not_made_one() -> None:
    entries = [{"gpu": n, "bdf": MESH[0], "uuid": f"u{n}"} for n in range(3)]
    part = read(amd_smi.FORMAT, entries)
    assert [gpu.uuid for gpu in part.gpus] == ["u0"]
    assert [problem.text for problem in part.problems] == [
        "GPU 1 of amd-smi has the PCI address of GPU 0 and is left out",
        "GPU 2 of amd-smi has the PCI address of GPU 0 and is left out",
    ]
    cards = {f"card{n}": {"PCI Bus": MESH[0], "Card Series": f"c{n}"} for n in range(2)}
    part = read(rocm_smi.FORMAT, cards)
    assert [gpu.address for gpu in part.gpus] == [MESH[0], "topo:AMD1"]
    assert len(part.problems) == 1


def test_lines_around_the_documents() -> None:
    text = (
        "WARNING: User is missing the following required groups: render, video.\n"
        "[WARNING] low-power state\n"
        + json.dumps([{"gpu": 0, "memory_partition": "NPS1"}], indent=2)
        + "\n"
        + json.dumps([{"gpu": 0, "bdf": MESH[0]}])
        + "\n\nLegend:\n  * = Current mode\n"
    )
    (gpu,) = read(amd_smi.FORMAT, text).gpus
    assert (gpu.address, gpu.memory_partition) == (MESH[0], "NPS1")


@pytest.mark.parametrize(
    ("value", "watts", "why"),
    [
        ({"value": 750, "unit": "W"}, 750.0, None),
        ({"value": "N/A", "unit": "W"}, None, "amd-smi prints N/A"),
        ("N/A", None, "amd-smi prints N/A"),
        ("not supported by this VM", None, "amd-smi prints not supported by this VM"),
        ({"value": 750000, "unit": "mW"}, None, "not understood: 750000 mW"),
        ({"value": [1], "unit": "W"}, None, "amd-smi prints nothing"),
        (float("nan"), None, "not in this output of amd-smi"),
        (True, None, "not understood: true"),
        (10**30, None, "amd-smi prints nothing"),
        ("7" * 5000, None, "not understood: " + "7" * 40),
    ],
)
def test_what_stands_where_a_number_was_promised(
    value: Any, watts: float | None, why: str | None
) -> None:
    document = [{"gpu": 0, "bus": {"bdf": MESH[0]}, "limit": {"socket_power": value}}]
    (gpu,) = read(amd_smi.FORMAT, document).gpus
    assert gpu.power_limit_watts == watts
    assert gpu.why("power_limit_watts") == why


def test_text_of_a_device_stays_one_line_of_text() -> None:
    name = "\x1b[31mMI300X\x07\n[bold]\ud800" + "x" * 9000
    (gpu,) = read(amd_smi.FORMAT, [{"gpu": 0, "bdf": MESH[0], "asic": {"market_name": name}}]).gpus
    assert gpu.name is not None
    assert gpu.name.isprintable()
    assert len(gpu.name) <= 512
    gpu.name.encode()


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        (amd_smi.FORMAT, '[{"gpu": 0, "bdf": "0000:0c:00.0",', "not JSON"),
        (amd_smi.FORMAT, '[{"gpu": 0, "asic": ' + "[" * 90_000, "nested too deep"),
        (amd_smi.FORMAT, '{"gpu": 0, "asic": ' + "[" * 40 + "]" * 40 + "}", "nested too deep"),
        (amd_smi.FORMAT, '[{"gpu": 0, "asic": ' + "9" * 5000 + "}]", "not JSON"),
        (amd_smi.FORMAT, '{"bdf": 1, "a": {"gpu": 5}}', "no GPU in it"),
        (amd_smi.FORMAT, '{"gpu": 0, "bdf": "x"}\n' * 70, "more than 64 JSON documents"),
        (rocm_smi.FORMAT, '{"card0": {', "not JSON"),
        (rocm_smi.FORMAT, '{"system": {"PID12": "python, 1"}}', "no card"),
        (amd_smi_text.FORMAT, "WEIGHT TABLE:\n 0000:0c:00.0\n", "cut short"),
        (amd_smi_text.FORMAT, "HOPS TABLE:\n GPU0 GPU1\nGPU0 0\n", "1 of 2 cells"),
        (rocm_smi_text.FORMAT, "== Hops between two GPUs ==\n GPU0 GPU0\n", "no list of GPUs"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_in_words(form: Format, text: str, says: str) -> None:
    assert form.recognises(text.encode()[:65536], Path("x"))
    with pytest.raises(FormatError, match=says):
        form.parse(text.encode(), Path("x"))


def test_too_many_gpus_are_refused() -> None:
    entries = [{"gpu": n, "bdf": f"{n:04x}:01:00.0"} for n in range(600)]
    with pytest.raises(FormatError, match="more than 512 GPUs"):
        read(amd_smi.FORMAT, entries)


def test_too_much_of_one_thing_is_refused() -> None:
    cells = {f"gpu_{n}": 15 for n in range(200)}
    with pytest.raises(FormatError, match="more than 16384 pairs"):
        read(amd_smi.FORMAT, [{"gpu": n, "weight": cells} for n in range(200)])
    with pytest.raises(FormatError, match="more than 8192 entries"):
        read(amd_smi.FORMAT, [{"gpu": 0, "bdf": MESH[0]}] * 9000)


def test_a_broken_file_among_others_is_named(tmp_path: Path) -> None:
    (tmp_path / "static.json").write_text('[\n{"gpu": 0,\n "asic": }]')
    with pytest.raises(
        LoadError, match=r"static\.json:3: broken, if it is JSON of amd-smi: not JSON"
    ):
        load([str(tmp_path / "static.json")])


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.sampled_from(["N/A", "XGMI", "0000:0c:00.0", "gpu_1", "U/U", "1-2", "NPS1", "9" * 400]),
)  # fmt: skip
WORDS = """
    gpu bdf bus asic limit ppt0 clock sys frequency_levels gfx_0 clk value unit links link_type
    link_status link_metrics bit_rate max_bandwidth read write weight bandwidth usage power ecc
    ecc_blocks UMC throttle process_list process_info pid gpu_data xgmi_metric partition
    partition_id card0 card1 system
"""
NAMES = st.sampled_from(WORDS.split()) | st.text(max_size=6)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)


@given(ANY)
@example({"gpu_data": [{"gpu": 0, "links": [{"gpu": True, "bdf": 5}, None]}]})
@example([{"gpu": 0, "bdf": "0000:0c:00.0", "link_status": [[], {}, "SELF"]}])
def test_any_json_is_read_or_refused(document: Any) -> None:
    data = json.dumps(document).encode()
    for form in (amd_smi.FORMAT, rocm_smi.FORMAT):
        with contextlib.suppress(FormatError):
            part = form.parse(data, Path("x"))
            assert all(gpu.vendor == "amd" for gpu in part.gpus)


@given(st.data())
def test_a_recording_with_one_value_replaced_is_read(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["static", "metric", "topology", "xgmi", "list", "process"]))
    document = json.loads((MI300X_7 / f"{name}.json").read_bytes())
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if (
            not isinstance(at[key], (dict, list))
            or not at[key]
            or data.draw(st.integers(0, 4)) == 0
        ):
            at[key] = data.draw(ANY)
            break
        at = at[key]
    with contextlib.suppress(FormatError):
        part = amd_smi.FORMAT.parse(json.dumps(document).encode(), Path("x"))
        assert len({gpu.address for gpu in part.gpus}) == len(part.gpus)


@given(st.text(alphabet="GPU01:= \nXMIPCE TABLWHOSf.[]", max_size=200))
@example("WEIGHT TABLE:\n GPU0 GPU1\nGPU0 0 15\nGPU1 15 0 \n")
def test_any_text_is_read_or_refused(text: str) -> None:
    for form in (amd_smi_text.FORMAT, rocm_smi_text.FORMAT):
        assert form.recognises(text.encode(), Path("x")) in (True, False)
        with contextlib.suppress(FormatError):
            part = form.parse(text.encode(), Path("x"))
            assert len({gpu.address for gpu in part.gpus}) == len(part.gpus)
