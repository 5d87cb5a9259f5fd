"""`python -m proxy` is `rejoinder`, and the script's entry.

The imports take most of a second; Ctrl-C in that time ends in peace, too.
"""

import sys


def main() -> None:
    """Read the command line and do what it says."""
    try:
        from proxy.cli import cli

        cli()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
