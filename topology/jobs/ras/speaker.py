"""Which process of this machine speaks at the other end of a connection to RAS.

proc_pid_net(5): a line of /proc/net/tcp holds both ports, the state and the inode of a socket;
/proc/PID/fd leads from a process to its inodes, for its owner and for root.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ...sources.files.tree import Tree, Unreadable

TABLES = ("proc/self/net/tcp", "proc/self/net/tcp6")
OPEN = ("01", "08")
"""States of a connection that was accepted: established, and closed by us alone."""
MOST_BYTES = 8 * 2**20
MOST_PROCESSES = 256
MOST_FILES = 4096

_SOCKET = re.compile(r"socket:\[(\d{1,20})\]$")


def speaker(tree: Tree, there: int, here: int, pids: Collection[int]) -> int | None:
    """The process among `pids` with the socket from port `there` to our port `here`.

    None where that is none of them, or may not be seen.
    """
    inode = next((found for table in TABLES if (found := _inode(tree, table, there, here))), None)
    if inode is None:
        return None
    holders = [pid for pid in sorted(pids)[:MOST_PROCESSES] if _holds(tree, pid, inode)]
    return holders[0] if len(holders) == 1 else None


def _inode(tree: Tree, table: str, there: int, here: int) -> str | None:
    data = tree.octets(table, 0, MOST_BYTES)
    if isinstance(data, Unreadable):
        return None
    own, other = f":{there:04X}".encode(), f":{here:04X}".encode()
    for line in data.splitlines()[1:]:
        words = line.split(None, 10)
        if len(words) < 10 or not words[1].endswith(own) or not words[2].endswith(other):
            continue
        inode = words[9].decode("ascii", "replace")
        if words[3].decode("ascii", "replace") in OPEN and inode.isdecimal() and inode != "0":
            return inode
    return None


def _holds(tree: Tree, pid: int, inode: str) -> bool:
    folder = f"proc/{pid}/fd"
    links = (tree.link(f"{folder}/{name}") for name in tree.names(folder)[:MOST_FILES])
    return any(
        found[1] == inode for link in links if link is not None and (found := _SOCKET.match(link))
    )
