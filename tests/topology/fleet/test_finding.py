"""What is said of a node in its own line."""

from __future__ import annotations

from gputop.topology.fleet.finding import COMPARED, differences, finding
from gputop.topology.model.severity import NOTICE, SLOW


def test_what_a_node_has_of_its_own_is_told_without_what_the_others_have() -> None:
    power = "power limit 500 W where 7 of 8 have 700 W"
    driver = "driver 550.54.15 where 7 of 8 have 580.95.05, and 2 more"
    found = [
        finding("power-differs", SLOW, COMPARED, power, ["g3"]),
        finding("driver-mixed", NOTICE, COMPARED, "driver: 4 have 1, 4 have 2", ["g3"]),
        finding("driver-differs", NOTICE, COMPARED, driver, ["g3"]),
    ]
    assert differences(found) == "power limit 500 W; driver 550.54.15 and 2 more"
    assert differences(found[1:2]) == ""
