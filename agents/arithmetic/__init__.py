"""Compiled functions of arrays: kernels' and losses' formulas, matching pursuit, factors. They know no parts."""
