"""The names that `torch.compile(backend=...)` takes."""
