"""Compiled functions of arrays: formulas of kernels and losses, pursuit, factors, products. They know no parts."""
