"""A model's activations: harvested, stored, streamed."""
