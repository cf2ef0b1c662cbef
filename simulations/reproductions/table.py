"""The names of the reproductions: the one table."""

# name -> "module:function". A new reproduction is one file and one line here; nothing is imported until it is named.
REPRODUCTIONS: dict[str, str] = {
    "colk-outliers": "kernelswarm.simulations.reproductions.colk_outliers:reproduce",
    "colk-lidar": "kernelswarm.simulations.reproductions.colk_lidar:reproduce",
}
