"""Warnings put into runs that went well: no answer may blame the run on one of them."""
