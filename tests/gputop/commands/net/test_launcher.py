"""Which node a process is, as torchrun, srun, mpirun and others say it."""

from __future__ import annotations

import pytest

from gputop.commands.net.launcher import LaunchError, hosts_named, launched

TORCHRUN = {
    "RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "g1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "4711", "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_NODEID": "1", "SLURM_NNODES": "16",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "g[1,9]", "PMI_RANK": "1", "PMI_SIZE": "2",
}  # fmt: skip


def mpirun(rank: int, size: int, local: int, each: int) -> dict[str, str]:
    said = {"RANK": rank, "SIZE": size, "LOCAL_RANK": local, "LOCAL_SIZE": each, "NODE_RANK": 0}
    return {f"OMPI_COMM_WORLD_{name}": str(number) for name, number in said.items()}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, (1, 2, 1, "torchrun")),
        ({**SRUN, **TORCHRUN}, (1, 2, 1, "torchrun")),
        (SRUN, (1, 2, 0, "srun")),
        ({**SRUN, "SLURM_LOCALID": "3"}, (1, 2, 3, "srun")),
        ({**SRUN, **mpirun(0, 2, 0, 1)}, (0, 2, 0, "mpirun")),
        (mpirun(8, 16, 0, 8), (1, 2, 0, "mpirun")),
        (mpirun(11, 16, 3, 8), (1, 2, 3, "mpirun")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, 0, "PMI")),
        (
            {"PMI_RANK": "4", "PMI_SIZE": "8", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "4"},
            (1, 2, 0, "PMI"),
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, 0, "RANK")),
    ],
)
def test_every_launcher_says_it(
    environment: dict[str, str], expected: tuple[int, int, int, str]
) -> None:
    found = launched(environment)
    assert (found.node, found.nodes, found.local, found.by) == expected


def test_options_count_more() -> None:
    found = launched({**TORCHRUN, **SRUN}, 0, 2)
    assert (found.node, found.nodes, found.local, found.store) == (0, 2, 0, None)


@pytest.mark.parametrize(("agent", "serve"), [("True", False), ("False", True)])
def test_the_store_of_torchrun(agent: str, serve: bool) -> None:
    """Without an agent's store the first process serves one while it runs."""
    found = launched({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": agent})
    assert found.store == {"host": "g1", "port": 29500, "prefix": "gputop/4711/0", "serve": serve}
    assert launched(SRUN).store is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no launcher says"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "no launcher says"),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "1"}, "srun has 1 node"),
        ({**SRUN, "SLURM_NODEID": "x\n"}, "SLURM_NODEID is 'x\\\\n', which is no number"),
        ({**TORCHRUN, "GROUP_RANK": "2"}, "there is no node 2 of 2, they count from 0"),
        (mpirun(1, 16, 0, 8), "start one process on each node"),
        (mpirun(0, 15, 0, 8), "start one process on each node"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(environment: dict[str, str], says: str) -> None:
    """A batch script without srun is none of a step's processes."""
    with pytest.raises(LaunchError, match=says):
        launched(environment)


def test_one_option_alone_is_not_enough() -> None:
    with pytest.raises(LaunchError, match="belong together"):
        launched(SRUN, 0, None)


def test_hosts_that_should_come() -> None:
    assert hosts_named(SRUN) == ("g1", "g9")
    assert hosts_named(SRUN, "h[1-2]") == ("h1", "h2")
    assert hosts_named({}) == ()
    with pytest.raises(LaunchError, match="the list of hosts"):
        hosts_named({}, "h[1-")
