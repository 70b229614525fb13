"""A Slurm of sixteen nodes on this machine: one slurmctld, and a slurmd for each node."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.harness.engines.cases import NODES

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scontrol")
ADMIN_PATH = "/usr/sbin:/sbin"
_START_SECONDS = 60.0
_CONFIGURATION = """\
ClusterName=engines
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP
"""


class Slurm:
    """The cluster; its processes are children of this one."""

    def __init__(self, folder: Path, nodes: Sequence[str] = NODES) -> None:
        self.folder, self.nodes = folder, tuple(nodes)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._environment = {**os.environ, **self.variables}
        self._environment["PATH"] = f"{os.environ['PATH']}:{ADMIN_PATH}"

    def start(self) -> None:
        """Write the configuration, start everything, and wait until every node is idle."""
        folder, ports = self.folder, _free_ports(len(self.nodes) + 1)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        (folder / "state").mkdir()
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2"
            for name, port in zip(self.nodes, ports[1:], strict=True)
        ]
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                folder=folder,
                ports=ports,
                user=getpass.getuser(),
                nodes="\n".join(lines),
                names=",".join(self.nodes),
            )
        )
        self._daemon(
            "munged", "munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
            f"--key-file={key}", f"--pid-file={folder}/munge.pid",
            f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        _until((folder / "munge.socket").exists, "munged has no socket")
        self._daemon("slurmctld", "slurmctld", "-D")
        for name in self.nodes:
            self._daemon(name, "slurmd", "-D", "-N", name)
        self.all_idle()

    def kill(self, node: str) -> None:
        """End the node's slurmd at once, as a power cut does."""
        self._daemons[node].kill()
        self._daemons[node].wait()

    def all_idle(self) -> None:
        """Start again what was killed, and wait until every node takes jobs."""
        for name in self.nodes:
            if self._daemons[name].poll() is not None:
                self._daemon(name, "slurmd", "-D", "-N", name)

        def idle() -> bool:
            states = dict(line.split() for line in self._said("sinfo", "-hNo", "%N %t"))
            wrong = [name for name, state in states.items() if state != "idle"]
            if wrong:
                # A node that died with a job keeps completing it until somebody calls it down.
                for state in ("State=DOWN Reason=died", "State=RESUME"):
                    named = f"NodeName={','.join(wrong)}"
                    self._said("scontrol", "update", named, *state.split())
            return len(states) == len(self.nodes) and not wrong

        _until(idle, "not every node of Slurm became idle")

    def cancel(self) -> None:
        """End what still runs or waits."""
        self._said("scancel", "--signal=KILL", f"--user={getpass.getuser()}")
        self._said("scancel", f"--user={getpass.getuser()}")

    def _daemon(self, name: str, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=self._environment["PATH"]) or program
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [path, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _said(self, *command: str) -> list[str]:
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout.splitlines()


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in taken]
    for server in taken:
        server.close()
    return ports


def _until(ready: Callable[[], bool], problem: str) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise TimeoutError(problem)
        time.sleep(0.2)
