"""Plans several probes, runs them one after the other and reports each step.

`state` holds what is shown, `planning` what will run and what it costs; `running` runs it.
Nothing here depends on Textual.
"""
