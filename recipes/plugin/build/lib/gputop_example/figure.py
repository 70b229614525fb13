"""A figure of a model, in the columns of topology/hardware/specs.toml."""

FIGURES = {
    "H200-SXM": [
        {
            "quantity": "example_copy",
            "kind": "typical",
            "measured": 4000.0,
            "unit": "GB/s",
            "source": "an example, measured by nobody",
        }
    ]
}
