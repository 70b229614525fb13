"""What a probe measures: the name of a quantity, its unit, and how its figures are read."""

from dataclasses import dataclass
from typing import Optional

PAIR, DEVICE, RANKS = "pair", "device", "ranks"


@dataclass(frozen=True)
class Quantity:
    """One quantity of a probe: the only place that knows its key, its unit and its names."""

    key: str
    """Its name in messages, snapshots, JSON documents and history."""
    title: str
    """Its name in a list of the probe's figures; "" where the variant says everything."""
    unit: str = "GB/s"
    """"" where the answer is a word, which is then the verdict of the figure."""
    per: str = DEVICE
    """PAIR: an ordered pair of devices. DEVICE: one device. RANKS: all that take part together."""
    more_is_better: bool = True
    counted: str = ""
    """What the value counts: "bytes copied, once"; "" where that differs between figures."""
    over_sizes: bool = False
    """Whether it is measured at many message sizes, which makes a curve."""
    heading: str = ""
    """What stands above its matrix, its table of sizes or its column; "": the title does."""
    broken: tuple[str, ...] = ()
    """Verdicts, besides "wrong-data", that mean that something does not work."""
    main_variant: Optional[str] = None
    """The best figure whose variant begins like this is compared with the data sheet in one line;
    None: no figure is."""
    headline: bool = False
    """Whether it stands for its probe in a list of probes; without one the first with a number."""
    total_of: str = ""
    """The key of a quantity of pairs that copy at the same time, which this one adds up."""
    has_steady_state: bool = False
    """Whether it is a first call, with the later calls in the details as `steady_us`."""
    in_check: bool = False
    """Whether it is shown in the comparison with NCCL's prediction and in no table."""
