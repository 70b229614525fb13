"""Parts that spare a search the tries that cannot matter; its graphs stay the same."""
