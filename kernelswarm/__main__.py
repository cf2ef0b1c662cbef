"""The command line's beginning: Ctrl-C ends it in words also while the rest is being imported."""

import sys

STOPPED = 130


def main() -> None:
    """Import the command line and run it."""
    try:
        from kernelswarm.simulations.command import cli
    except KeyboardInterrupt:
        print("kernelswarm: stopped by Ctrl-C", file=sys.stderr)
        sys.exit(STOPPED)
    cli.main()


if __name__ == "__main__":
    main()
