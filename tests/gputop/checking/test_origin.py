from __future__ import annotations

import pytest

from gputop.checking.file import file_name, origin
from gputop.exits import Exit
from gputop.topology.fleet.section import NodeOrigin


@pytest.mark.parametrize(
    ("environment", "host_name", "name", "job", "engine", "rank"),
    [
        ({}, "g7.cluster.example", "g7", None, None, None),
        ({"SLURMD_NODENAME": "gpu7", "SLURM_JOB_ID": "12", "SLURM_PROCID": "3"}, "x", "gpu7",
         "12", "Slurm", 3),
        ({"GPUTOP_NODE": "a1", "SLURMD_NODENAME": "gpu7"}, "x", "a1", None, None, None),
        ({"PBS_JOBID": "4.srv", "OMPI_COMM_WORLD_RANK": "0"}, "n1", "n1", "4.srv", "PBS", 0),
        ({"PMIX_RANK": "5"}, "n1", "n1", None, "PMIx", 5),
        ({"RANK": "none"}, "n1", "n1", None, None, None),
        ({"SLURMD_NODENAME": "../../etc/x"}, "n1", "unknown", None, None, None),
        ({"SLURM_JOB_ID": "../9"}, "", "unknown", "___9", "Slurm", None),
    ],
)  # fmt: skip
def test_a_node_is_named_as_its_engine_names_it(
    environment: dict[str, str],
    host_name: str,
    name: str,
    job: str | None,
    engine: str | None,
    rank: int | None,
) -> None:
    found = origin(environment, host_name)
    assert (found.host, found.job, found.engine, found.rank) == (name, job, engine, rank)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("DIR/%n.json.gz", "DIR/g7.json.gz"),
        ("%j/%n-100%%.json", "12/g7-100%.json"),
        ("plain", "plain"),
    ],
)
def test_names_are_put_into_the_path(pattern: str, path: str) -> None:
    assert file_name(pattern, NodeOrigin(host="g7", job="12")) == path


def test_no_name_leads_out_of_the_folder() -> None:
    of = NodeOrigin(host="../../etc/passwd", job="..")
    assert file_name("D/%n/%j", of) == "D/___.._etc_passwd/__"
    assert file_name("%j", NodeOrigin(host="g1")) == "none"


@pytest.mark.parametrize("pattern", ["%x", "a%", "%N"])
def test_another_letter_is_refused(pattern: str) -> None:
    with pytest.raises(Exit, match="%n"):
        file_name(pattern, NodeOrigin(host="g1"))
