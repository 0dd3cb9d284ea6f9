"""The tests of a trial, one per file."""
