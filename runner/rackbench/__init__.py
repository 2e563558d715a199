"""What an open model is worth on your own GPUs."""

__version__ = "0.1.0"
