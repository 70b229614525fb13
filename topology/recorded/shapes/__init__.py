"""Reference nodes, one TOML file each; the folder is the registry."""
