"""Files that are recognised but that `--from` does not read, and what reads them."""

from __future__ import annotations

import re

WITH_JSON = "which --from does not read; print the same with --json"

UNREAD = (
    (
        re.compile(
            rb"(?m)^(?:timestamp,)?gpu,[a-z0-9_#,]{0,4000}"
            rb"(?:bdf|uuid|activity|socket_power|power_usage|market_name|fw_id|retired|num_hops|"
            rb"weight|link_type|process_info|pid|clk|vram|memory)"
        ),
        f"CSV of amd-smi, {WITH_JSON}",
    ),
    (
        re.compile(rb"(?m)^device,[A-Z(][^\n]{0,4000}\r?\n(?:card|system)"),
        f"CSV of rocm-smi, {WITH_JSON}",
    ),
    (
        re.compile(
            rb"(?m)^GPU: \d{1,4}[ \t]*\r?\n[ \t]{4}[A-Z][A-Z0-9_]*:|^\| AMD-SMI |"
            rb"^(?:LINK METRIC TABLE|XGMI LINK STATUS|GPU LINK PORT STATUS):"
        ),
        "text of amd-smi, of which --from reads `topology` alone; print the same with --json",
    ),
    (
        re.compile(rb"\A(?:BZh[1-9]|\xfd7zXZ|\x28\xb5\x2f\xfd|PK\x03\x04)"),
        "packed in a way that --from does not read; pack it with gzip, or not at all",
    ),
    (
        re.compile(rb"<graphs[^>]{0,400}\bversion="),
        "an NCCL graph XML, which --from does not read; the graphs in a job's debug log are shown "
        "by `gputop log FILE`",
    ),
    (
        re.compile(
            rb"\A\x80[\x02-\x05]|"
            rb'\A\s{0,64}\{\s{0,64}"(?:comm_lib_version|entries|nccl_version|pg_config|pg_status|version)"'
            rb'(?=[\s\S]{0,65536}"(?:pg_config|pg_status|profiling_name|comm_lib_version)")'
        ),
        "a pickle or JSON as PyTorch's flight recorder dumps it, which says nothing of the node; "
        "see `gputop log FILE` or `gputop jobs --from FILE`",
    ),
    (
        re.compile(rb'\A\s{0,64}\{\s{0,64}"schema"\s{0,64}:\s{0,64}"gputop\.(?!check/)'),
        "JSON that a command of gputop printed; of those --from reads the ones of `gputop "
        "snapshot` and `gputop check`",
    ),
    (
        re.compile(rb"\bNCCL (INFO|WARN|TRACE|VERSION|version)\b"),
        "an NCCL debug log, which --from does not read; see `gputop log FILE`",
    ),
)
"""A sign in the first bytes of a file, and what the file is."""
