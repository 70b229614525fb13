"""Where ROCm's libraries are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.probes.engine import rocm


def test_the_system_comes_before_the_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    own, env, tool = (tmp_path / name for name in ("own-rocm", "env", "tool"))
    places = [
        tmp_path / "opt" / "rocm-7.0.2" / "lib",
        env / "lib" / "python3.12" / "site-packages" / "torch" / "lib",
        env / "lib" / "python3.12" / "site-packages" / "_rocm_sdk_core" / "lib",
        tool / "lib" / "python3" / "dist-packages" / "torch" / "lib",
    ]
    for place in (*places, tmp_path / "plain" / "lib" / "python3.12" / "site-packages"):
        place.mkdir(parents=True)
    for folder in (tool / "bin", tmp_path / "plain" / "bin", tmp_path / "no-python"):
        folder.mkdir()
    for folder in (tool / "bin", tmp_path / "plain" / "bin"):
        (folder / "python3").touch()
    environment = {
        "ROCM_PATH": str(own),
        "HIP_PATH": "relative",
        "VIRTUAL_ENV": str(env),
        "PATH": f"{tmp_path}/no-python:bin:{tool}/bin:{tmp_path}/plain/bin",
    }
    assert list(rocm.folders(environment, tmp_path / "opt")) == [own / "lib", *places]


def test_a_machine_without_rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert list(rocm.folders({}, tmp_path)) == []
