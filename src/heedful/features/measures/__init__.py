"""How good a dictionary is."""
