"""Measurements, run by a child process under any Python that has torch.

Two processes share this folder. The app uses `runner/client.py` and `runner/interpreters.py`;
`worker.py` is a script that runs by path under another Python (3.9 or newer, torch 2.1 or newer);
`runner/keeper.py` sits between them so that nothing outlives either. `protocol/` holds their
messages.
"""
