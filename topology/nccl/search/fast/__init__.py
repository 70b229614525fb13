"""Ways to spare a search the tries that cannot matter: its graphs stay what they are without."""
