"""Reference nodes as raw answers, made from the shapes."""
