"""Writes the libraries in a folder of packages, with version and licence: for `copyright`."""

import sys
from importlib.metadata import distributions

FOLDER = sys.argv[1]
for each in sorted(distributions(path=[FOLDER]), key=lambda one: one.metadata["Name"]):
    says = each.metadata
    licence = says["License-Expression"] or (says["License"] or "").partition("\n")[0]
    classed = [c for c in says.get_all("Classifier") or () if c.startswith("License ::")]
    licence = licence or ", ".join(classed) or "see its folder"
    sys.stdout.write(f"  {says['Name']} {each.version}: {licence}\n")
