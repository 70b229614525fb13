"""Files of a machine: the live root folder, a copied one, or a tar; fields out of raw answers."""
