"""localchat: a terminal chat with a lossless speculative-decoding engine inside."""

__version__ = "0.1.0"
