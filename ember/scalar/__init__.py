"""The scalar language: formulas over one element, from which every device's kernels and derivatives
follow."""
