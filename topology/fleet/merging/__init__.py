"""The files of a folder, of nodes and of pairs of them, as one fleet."""
