"""How far apart two GPUs are, in words that stay as long as the paths."""

from ...model.page import Basis
from ..nodes import PathType, SystemNode, SystemPath
from ..prediction import DecisionStep
from ..versions import Version
from ..wording import PathWords, meaning


class Distances:
    """How far apart two GPUs are, before any diversion; `placed`: it was read where they hang."""

    def __init__(self, version: Version, *, placed: bool) -> None:
        self.ways, self._placed = PathWords(version), placed
        self._answers = [f"{version.name_of(kind)}: {meaning(version, kind)}" for kind in PathType]
        self._table = f", {version.library.upper()}'s own constant, not the rate of this link"
        self._steps: dict[int, tuple[SystemPath, DecisionStep]] = {}
        """By path, which stays as long as its step."""

    def step(self, src: SystemNode, path: SystemPath) -> DecisionStep:
        """The path from one GPU to another."""
        known = self._steps.get(id(path))
        if known is None:
            known = self._steps[id(path)] = path, self._step(src, path)
        return known[1]

    def _step(self, src: SystemNode, path: SystemPath) -> DecisionStep:
        ways, guessed = self.ways, not self._placed and path.type > PathType.NVB
        way = f"{ways.way(src, path)}; narrowest link {ways.narrowest(path)}{self._table}"
        return DecisionStep(
            question="how far apart?",
            answer=self._answers[path.type],
            because=f"{way}; where they hang was not read (`gputop topo`: ?)" if guessed else way,
            flag="NCCL_TOPO_FILE",
            source="graph/paths.cc:ncclTopoSetPaths",
            basis=Basis.ASSUMED if guessed else Basis.READ,
        )
