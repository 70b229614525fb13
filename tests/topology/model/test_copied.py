"""Which words from outside may stand in a line for copying."""

from __future__ import annotations

import shlex

import pytest

from gputop.topology.model.copied import _PLAIN, _WORDS, RefusedError, copied, held, may_stand
from tests.support.hostile_names import HARMLESS, HOSTILE

SOUND = {
    "name": (
        "mlx5_0",
        "enp1s0f0np0",
        "bond0.100",
        "g1",
        "login-1.site.example",
        "10.0.0.5",
        "ip-10-0-0-5",
        "all1",
        "GPU_7",
    ),
    "address": ("0000:0f:00.0", "00000001:C3:1f.7"),
    "device": ("0000:0f:00.0", "GPU-5f3c-11", "0000:05:00.0/3"),
    "variable": ("NCCL_ALGO", "a1"),
    "path": ("/etc/nccl.conf", "/opt/a+b/x-1.xml"),
    "value": ("^NVLSTree", "Ring;Tree", "AWS Libfabric", "", "-1", "mlx5_0:1", "ALL", "it's"),
    "folder": ("checks", "/data/my runs", "../50% 'done'"),
    "port": ("mlx5_0:1", "bnxt_re1", "mlx5_bond_0:2"),
    "number": ("0", "12", 7),
    "pid": ("1", 4711),
}


def test_hostile_names_are_many() -> None:
    assert len(set(HOSTILE)) >= 60
    assert set(SOUND) == set(_WORDS)


@pytest.mark.parametrize("kind", sorted(_WORDS))
def test_no_hostile_name_may_stand_and_sound_ones_may(kind: str) -> None:
    assert all(may_stand(word, kind) for word in SOUND[kind])
    stands = [name for name in HOSTILE if may_stand(name, kind)]
    if kind in ("value", "folder"):
        assert all(HARMLESS.fullmatch(name) for name in stands)
        assert all(shlex.split(copied(f"a {{:{kind}}}", name)) == ["a", name] for name in stands)
    else:
        assert stands == (["7"] if kind in _PLAIN else [])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_before_the_number_of_a_port(name: str) -> None:
    assert not may_stand(f"{name}:1", "port")


def test_numbers_of_processes_are_processes() -> None:
    assert not any(may_stand(number, "pid") for number in (0, -1, None, 10**12, "1 2", "٣"))


def test_one_refused_word_leaves_no_line() -> None:
    assert copied("a {:name} {:name,}", "g1", ["x", "y2"]) == "a g1 x,y2"
    assert copied("a {:name} {:name,}", "g1", ["x", "ALL"]) == ""
    assert copied("a {:name}", []) == ""
    with pytest.raises(RefusedError, match="'DEFAULT': a name here is none"):
        held("a {:name}", ["g1", "DEFAULT"])
