"""`python -m localchat`, and the `localchat` command."""

import gc
import sys


def main() -> None:
    """Run the command line."""
    gc.disable()  # importing makes no garbage, and looking for it takes a tenth of the start
    try:
        from localchat.cli import app

        gc.enable()
        app()
    except KeyboardInterrupt:
        # Only reached while the command line itself is being imported; it handles its own interrupts.
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
