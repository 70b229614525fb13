"""Prints what is said about a node: one printer for the terminal, one for the screen."""
