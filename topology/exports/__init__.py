"""A node as files for other programs and as text. One module a format."""
