"""What backends are given: arrays, and calls that say what to compute."""
