"""Sparse autoencoders: architectures, training, formats."""
