"""One text has one answer: the seed of hashes, another one in each process, decides none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

UNHEARD = "*"
ANSWERS = """
import hashlib, io, sys
from pathlib import Path
from gputop.topology.diagnosis.symptoms.explain import known_signs, table
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.literals import literals
from gputop.topology.toml import tomllib
from tests.support.whole import whole

texts = {row.id: "\\n".join(row.shown) for row in table()}
kernel = Path("tests/topology/diagnosis/rules/host/kernel_texts.toml").read_text()
texts |= {one["name"]: one["text"] for one in tomllib.loads(kernel)["text"]}
one_in = int(sys.argv[1])
for name, text in list(texts.items())[::one_in]:
    log = read_log(io.BytesIO(text.encode()), signs=known_signs(), outputs=True)
    print(name, hashlib.sha1(whole(examine(log, None)).encode()).hexdigest()[:8])
for pattern in [pattern for row in table() for pattern in row.any][::one_in]:
    print(pattern, [[sorted(texts) for texts in sets] for sets in literals(pattern)])
"""


@pytest.mark.parametrize("one_in", [8, pytest.param(1, marks=pytest.mark.grid)])
def test_a_process_answers_as_another_one(one_in: int) -> None:
    asked = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWERS, str(one_in)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "2")
    ]
    one, other = (process.communicate(timeout=300)[0].splitlines() for process in asked)
    assert [process.returncode for process in asked] == [0, 0]
    assert len(one) > 1000 / one_in
    assert sorted(set(one) ^ set(other)) == []
