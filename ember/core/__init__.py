"""Tensors, the funnel that every op passes, and the gradient engine."""
