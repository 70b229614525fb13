"""Several probes, one after the other: planned, run, told step by step.

`state` is what is shown, `planning` says what will run and what it costs, `running` runs it.
Nothing here knows Textual.
"""
