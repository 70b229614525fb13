"""The node as data: its devices, how they are connected, and where each fact was read."""
