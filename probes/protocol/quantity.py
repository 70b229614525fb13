"""The quantities of probes: name, unit, and how figures are interpreted."""

from dataclasses import dataclass
from typing import Optional

PAIR, DEVICE, RANKS = "pair", "device", "ranks"


@dataclass(frozen=True)
class OnPairs:
    """How the Pairs screen shows a quantity."""

    title: str = ""
    """Its name there; "": the title, with a capital."""
    note: str = ""
    """Continues the unit in the line below the names: ", the row writes"."""
    place: int = 100
    """Lower places come first; equal ones in the order of the declarations."""
    signs: bool = False
    """Whether each figure has the sign of its verdict."""


AS_DECLARED = OnPairs()


@dataclass(frozen=True)
class Quantity:
    """One quantity of a probe; nothing else declares its key, unit and titles."""

    key: str
    """Its name in messages, snapshots, JSON documents and history."""
    title: str
    """Its name in a list of the probe's figures; "" where the variant says everything."""
    unit: str = "GB/s"
    """"" if the answer is a word, which then is the verdict of the figure."""
    per: str = DEVICE
    """PAIR: an ordered pair of devices. DEVICE: one device. RANKS: all that take part together."""
    more_is_better: bool = True
    counted: str = ""
    """What the value counts: "bytes copied, once"; "" where that differs between figures."""
    over_sizes: bool = False
    """Whether it is measured at many message sizes, which makes a curve."""
    heading: str = ""
    """The heading of its matrix, table of sizes or column; "": the title."""
    broken: tuple[str, ...] = ()
    """Verdicts besides "wrong-data" that mean "broken"."""
    main_variant: Optional[str] = None
    """The best figure of variants with this start is compared with the data sheet; None: none."""
    headline: bool = False
    """Whether it represents its probe in a list; else the first quantity with a number."""
    total_of: str = ""
    """The key of the quantity of simultaneous pairs that this one adds up."""
    has_steady_state: bool = False
    """Whether it times a first call; the details then hold later calls as `steady_us`."""
    in_check: bool = False
    """Whether only the comparison with NCCL's prediction shows it, and no table."""
    on_pairs: Optional[OnPairs] = AS_DECLARED
    """How the Pairs screen shows it if it has one figure for each pair; None: not at all."""
    on_map: Optional[str] = None
    """The variant that stands beside a line of the Map; "": whatever there is; None: not there.

    Figures of a pair stand beside the lines from the selected GPU, those of a device beside its
    PCIe link.
    """
