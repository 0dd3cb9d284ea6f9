"""Places of a model where activations are read and changed."""
