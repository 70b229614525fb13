"""Facts about hardware as data: GPU models, links, reference nodes, each with its source."""
