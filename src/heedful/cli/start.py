"""The program `heedful`. Ctrl-C while its modules are still being imported ends it without a traceback."""

from __future__ import annotations


def main() -> int:
    """Run the command line, and return its exit code."""
    try:
        from heedful.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run()
