"""A debug log beside the prediction for the same GPUs."""
