"""The names of the reproductions: the one table."""

# name -> "module:function". A new reproduction is one file and one line here; nothing is imported until it is named.
REPRODUCTIONS: dict[str, str] = {
    "okfeb-spheres": "kernelswarm.simulations.reproductions.okfeb_spheres:reproduce",
    "okfeb-manifold": "kernelswarm.simulations.reproductions.okfeb_manifold:reproduce",
    "okfeb-regression": "kernelswarm.simulations.reproductions.okfeb_regression:reproduce",
}
