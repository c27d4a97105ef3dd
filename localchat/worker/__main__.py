"""`python -m localchat.worker`: the engine's process. The screen starts it; by hand it only waits for orders."""

from localchat.worker.child import main

if __name__ == "__main__":
    main()
