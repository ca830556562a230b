"""The CPU backend: NumPy for small and single operations, library kernels written over it."""
