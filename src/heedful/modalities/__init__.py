"""Kinds of input: how it is encoded, cut into units, and how a unit is removed."""
