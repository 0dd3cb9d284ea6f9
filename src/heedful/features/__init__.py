"""Features: sparse dictionaries of a model's activations, from harvest to steering."""
