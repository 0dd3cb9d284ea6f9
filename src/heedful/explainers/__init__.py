"""One file per family. Every module here is imported by the registry; nothing else needs to know of it."""
