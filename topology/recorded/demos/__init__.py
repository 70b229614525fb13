"""Reference nodes as raw answers, built from the shapes."""
