"""Any answer of the sources that read files is parsed, and fits the schema."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.topology.model.snapshot import decode, encode
from gputop.topology.model.source import Source
from gputop.topology.sources.collect import merge
from gputop.topology.sources.linux import host, processes, software
from gputop.topology.sources.pci import network, pci
from tests.support.places import RECORDINGS

SAMPLES: dict[str, tuple[Source, Any]] = {
    module.SOURCE.id: (
        module.SOURCE,
        json.loads((RECORDINGS / f"epyc-root-ports/{module.SOURCE.id}.json").read_text()),
    )
    for module in (pci, host, network)
} | {
    "processes": (
        processes.SOURCE,
        {
            "processes": {
                "17": {
                    "user": "ann",
                    "command": "python3",
                    "affinity": [0, 1],
                    "started_at": 1.5,
                    "memory_bytes": 4096,
                    "arguments": ["python3", "train.py"],
                    "opens_gpu": True,
                }
            }
        },
    ),
    "software": (
        software.SOURCE,
        {
            "absent": "no such file",
            "files": {"opt/rocm/.info/version": "6.4.1-83"},
            "packages": [{"folder": "/x", "torch": "2.11.0+cu130", "nccl": "2.28.9"}],
            "libraries": [["/lib/libnccl.so.2", "libnccl.so.2.28.9"]],
        },
    ),
}
# With lone surrogates, which JSON cannot hold, and numbers beyond 64 bits.
WORDS = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["0x060400", "-1", "0-4294967295", "9" * 30, "pci0000:00/0000:00:01.0", "\ud800", ":"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def check(source: Source, raw: Any) -> None:
    snapshot = merge([source.parse(raw)], taken_at=0.0, source=("test",), gputop="test")
    assert decode(encode(snapshot)) == snapshot


@pytest.mark.parametrize("name", SAMPLES)
def test_the_sample_is_parsed(name: str) -> None:
    check(*SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
@given(raw=JSON)
def test_any_answer_is_parsed(name: str, raw: Any) -> None:
    source, sample = SAMPLES[name]
    check(source, raw)
    check(source, dict.fromkeys(sample, raw))


@pytest.mark.parametrize("name", SAMPLES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_answer_is_parsed(name: str, data: st.DataObject) -> None:
    source, sample = SAMPLES[name]
    raw = copy.deepcopy(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        damage(data, raw)
    check(source, raw)


def damage(data: st.DataObject, value: Any) -> None:
    """Replace something somewhere in the answer."""
    while isinstance(value, dict | list) and value:
        keys = sorted(value, key=str) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        below = value[key]
        if not (isinstance(below, dict | list) and below) or data.draw(st.integers(0, 9)) == 0:
            if isinstance(value, dict) and data.draw(st.booleans()):
                value[data.draw(WORDS)] = value.pop(key)
            else:
                value[key] = data.draw(JSON)
            return
        value = below
