"""Where the GPUs are: their NICs and switches, looked for again only when the machine changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gputop.topology.explain.switches import switch_above

if TYPE_CHECKING:
    from gputop.topology.explain.nics import GpuNic
    from gputop.topology.report import Report


class Places:
    """NICs by the machine and the prediction, and the switch of one GPU."""

    def __init__(self) -> None:
        self._nics: tuple[object, object, Mapping[str, GpuNic]] = (None, None, {})
        self._switch: tuple[object, str, str] = (None, "", "")

    def nics(self, report: Report) -> Mapping[str, GpuNic]:
        """PCI address of a GPU -> its NIC; {} before the prediction is decided."""
        if not report.node.decided:
            return {}
        prediction, matrix, found = self._nics
        if prediction is not report.prediction or matrix is not report.matrix:
            from gputop.topology.explain.nics import gpu_nics

            found = gpu_nics(report.node)
            self._nics = report.prediction, report.matrix, found
        return found

    def switch(self, report: Report | None, address: str) -> str:
        """The switch above a GPU, in words."""
        if report is None:
            return ""
        machine, of, text = self._switch
        if machine is not report.snapshot.machine or of != address:
            machine = report.snapshot.machine
            text = switch_above(report.snapshot.machine, address)
            self._switch = machine, address, text
        return text
