"""One command per file; heavy imports wait until it runs."""
