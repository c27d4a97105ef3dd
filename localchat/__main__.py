"""`python -m localchat`, and the `localchat` command."""


def main() -> None:
    """Run the command line."""
    from localchat.cli import app

    app()


if __name__ == "__main__":
    main()
