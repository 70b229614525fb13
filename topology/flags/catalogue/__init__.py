"""The catalogue of variables."""
