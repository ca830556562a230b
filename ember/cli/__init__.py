"""The command line: `ember run` and `ember info`, also as `python -m ember`."""
