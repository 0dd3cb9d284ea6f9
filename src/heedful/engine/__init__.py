"""Rows of masked inputs, and where the shards of an audit are worked on: in this process, or on many."""
