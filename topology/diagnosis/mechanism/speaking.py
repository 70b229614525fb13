"""Which words of a failing line may name what failed, and which only stand in it.

A product's name in a folder, an image, an address of the web, a host's name or an option of a
command says where something lies or how it was started, and nothing of what failed.
"""

from __future__ import annotations

import re

_SOURCE = r"\.(?:c|cc|cpp|cu|cuh|h|hpp|hip|py|go|rs)"
_NAMED = re.compile(
    # An address of the web.
    r"\b(?:https?|tcp|docker|oci|git|ssh)://[^\s'\"]+"
    # An image with its tag or digest: docker.io/rocm/vllm:latest.
    rf"|(?<![\w./-])(?!NET/)[a-z0-9][\w.-]*(?::\d+)?(?:/[a-z0-9](?:(?!{_SOURCE}:)[\w.-])*)+"
    r"(?:@sha256:\w+|:(?!\d+(?::|\b(?![.\w-])))\w[\w.-]*)"
    # A prompt, and the host before a process number or a rank: user@slurm-1:~$, [vllm-0:123].
    r"|\b[\w.-]+@[\w.-]+(?::\S*)?[$#](?= )|(?<=\[)[A-Za-z][\w.-]*(?=:\d+(?::\d+)*\])"
    r"|^[A-Za-z][\w.-]*(?=:\d+:\d+ \[)"
    # The host of a line of syslog: Nov 29 00:10:12 slurm-gpu-1 kernel:
    r"|(?<=\d\d:\d\d:\d\d )[A-Za-z][\w.-]*(?= [\w./-]+(?:\[\d+\])?: )"
    # A host that is called one.
    r"|\b(?:[Hh]ost(?:name)?|[Nn]ode(?: ?[Nn]ame)?|[Ss]erver)[ =:]+['\"]?"
    r"[A-Za-z][\w.]*-[\w.-]*"
    # A long option with its value.
    r"|(?<![\w-])--[A-Za-z][\w.-]*(?:=\S+)?"
)
_ROOTS = r"home|root|mnt|data|workspace|scratch|tmp|Users|opt|usr|srv|lustre|nfs|gpfs|efs|shared"
_FOLDERS = re.compile(
    rf"(?<![\w/.])(?:~|\.{{1,2}}|/(?:{_ROOTS})\b)(?:/[\w.@+-]*(?=/))+"
    # What lies in site-packages or is built there is named by the folders behind that.
    r"(?:(?<=/site-packages)|(?<=/dist-packages)|(?<!-packages))"
)
_KEPT = re.compile(rf"\S*(?:nvshmem\S*{_SOURCE}|-packages/\S*)")
"""Paths of a source file by whose folder its project is known."""


def speaking(text: str) -> str:
    """The line with spaces in place of what names no subject; as long as it was."""
    text = _NAMED.sub(_blank, text)
    return _FOLDERS.sub(lambda found: _of_project(text, found), text)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _of_project(text: str, found: re.Match[str]) -> str:
    """A folder blanked, save where it tells whose source file a message comes from."""
    return found[0] if _KEPT.match(text, found.start()) else _blank(found)
