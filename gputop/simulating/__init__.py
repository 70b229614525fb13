"""Probes of a demo: figures from what this hardware should give and from the demo's faults.

Nothing is measured. `suite` runs the probes as a real suite would, and every figure says that it
is simulated.
"""
