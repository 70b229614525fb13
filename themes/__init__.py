"""Colours and styles as data; nothing here runs."""
