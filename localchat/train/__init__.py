"""Training a drafting network for the user's own target, on the user's own machine. Start with `plan.py`."""
