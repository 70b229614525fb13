"""The rules that compare with a reference."""
