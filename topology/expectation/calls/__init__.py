"""Calls: how long a collective takes, and what is left where several run at the same time.

`times.TimesOfCalls(node).of(gpus, collective, size, beside)` is the one function to call; it gives
microseconds, bus bandwidth, a range and the source.
"""
