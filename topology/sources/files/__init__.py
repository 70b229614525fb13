"""Files of a machine: the live root folder, a copied one, or a tar, and the texts in them."""
