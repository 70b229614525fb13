"""The variables that change what NCCL, RCCL and their surroundings do: a catalogue as data."""
