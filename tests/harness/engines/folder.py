"""The commands that a node has: `gputop`, and an ssh that leads to another name of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.harness.engines import node
from tests.harness.engines.cases import DEAD, NODES
from tests.support.places import ROOT

_GPUTOP = """\
#!/bin/sh
PYTHONPATH={root} XDG_CONFIG_HOME={folder}/config exec {python} {node} {folder} "$@"
"""
_SSH = """\
#!/bin/bash
# Starts a command as sshd does, with nothing of our environment, on a host of that name.
while [[ $1 == -* ]]; do
    case $1 in -[bceEFiIJlLmoOpQRSwW]) shift 2 ;; *) shift ;; esac
done
host=$1
shift
if [ "$(cat "{folder}/nodes/$host" 2>/dev/null)" = {dead} ]; then
    echo "ssh: connect to host $host port 22: No route to host" >&2
    exit 255
fi
exec env -i PATH={folder}/bin:/usr/bin:/bin HOME="$HOME" {variables} {unshare} \\
    bash -c 'hostname "$0"; exec bash -c "$1"' "$host" "$*"
"""
_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")


class Folder:
    """A throw-away folder with the programs and with what is wrong on which node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("bin", "nodes", "config", "slurm"):
            (path / name).mkdir()
        self._program(
            "gputop",
            _GPUTOP.format(
                root=shlex.quote(str(ROOT)),
                folder=path,
                python=shlex.quote(sys.executable),
                node=shlex.quote(str(node.__file__)),
            ),
        )
        unshare = "unshare --uts" if os.geteuid() == 0 else "unshare --user --map-root-user --uts"
        self._program(
            "ssh",
            _SSH.format(folder=path, dead=DEAD, unshare=unshare, variables=" ".join(_AS_ROOT)),
        )
        (path / "recipes").symlink_to(ROOT / "recipes")
        (path / "hosts").write_text("".join(f"{name}\n" for name in NODES))

    def now(self, kinds: Mapping[str, str]) -> Path:
        """Let the nodes be so; gives an empty folder for their files."""
        for place in (self.path / "nodes").iterdir():
            place.unlink()
        for name, kind in kinds.items():
            (self.path / "nodes" / name).write_text(kind)
        files = self.path / "files"
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        return files

    def environment(self, files: Path) -> dict[str, str]:
        """The variables with which somebody starts an engine here."""
        given = dict(pair.split("=") for pair in _AS_ROOT)
        return {
            **os.environ,
            **given,
            "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}",
            "DIR": str(files),
        }

    def _program(self, name: str, text: str) -> None:
        place = self.path / "bin" / name
        place.write_text(text)
        place.chmod(0o755)
