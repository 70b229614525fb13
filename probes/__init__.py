"""Measurements, run by a child process under any Python that has torch.

Two ends share this folder. `client` and `interpreters` belong to the app's process; `worker` is a
script run by path under somebody else's Python (3.9 or newer, torch 2.1 or newer); `keeper` sits
between them so that nothing outlives either. `protocol` is what they say to each other.
"""
