"""Options of the commands that predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gputop.commands.options import completing, set_option


def predicting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --set, --nccl and --gpus."""
    text = "Predict as if this variable were set; NAME= sets it to nothing"
    command = set_option("settings", text)(command)
    command = click.option(
        "--nccl",
        "library",
        metavar="VERSION",
        shell_complete=completing("versions"),
        default=None,
        help="Library to predict: nccl-2.28.9, rccl-2.21.5, or 2.28.9 of the library for these "
        "GPUs; by default what is installed.",
    )(command)
    return click.option(
        "--gpus",
        metavar="LIST",
        shell_complete=completing("ranks"),
        default=None,
        help="GPUs of the communicator: ranks, PCI addresses, UUIDs, nvml:N or cuda:N; by default "
        "all.",
    )(command)
