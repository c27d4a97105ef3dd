"""`python -m localchat`, and the `localchat` command."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from localchat.cli import app

        app()
    except KeyboardInterrupt:
        # Only reached while the command line itself is being imported; it handles its own interrupts.
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
