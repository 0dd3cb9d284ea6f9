"""Texts and cases that labs run on."""
