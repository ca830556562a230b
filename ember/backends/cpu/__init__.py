"""The CPU backend: NumPy for small and single operations, library kernels written over it."""


def get_cpu_capability() -> str:
    """Which vector instructions kernels were chosen for: "DEFAULT", since none are."""
    return "DEFAULT"
