"""The names of the reproductions: the one table."""

# name -> "module:function". A new reproduction is one file and one line here; nothing is imported until it is named.
# A module whose reproduction needs data says which in its constant DATA: the file, and where it is published; where
# it runs without, DATA_IS_OPTIONAL is true.
REPRODUCTIONS: dict[str, str] = {
    "polk-multidist": "kernelswarm.simulations.reproductions.polk_multidist:reproduce",
    "polk-theory": "kernelswarm.simulations.reproductions.theory.polk:reproduce",
    "polk-mnist": "kernelswarm.simulations.reproductions.digits.polk_mnist:reproduce",
    "okfeb-spheres": "kernelswarm.simulations.reproductions.subspaces.spheres:reproduce",
    "okfeb-manifold": "kernelswarm.simulations.reproductions.subspaces.manifold:reproduce",
    "okfeb-regression": "kernelswarm.simulations.reproductions.subspaces.regression:reproduce",
    "okfeb-bounds": "kernelswarm.simulations.reproductions.theory.okfeb:reproduce",
    "colk-outliers": "kernelswarm.simulations.reproductions.colk_outliers:reproduce",
    "colk-lidar": "kernelswarm.simulations.reproductions.colk_lidar:reproduce",
    "colk-theory": "kernelswarm.simulations.reproductions.theory.colk:reproduce",
    "spppot-gaussian": "kernelswarm.simulations.reproductions.spppot_gaussian:reproduce",
    "spppot-shots": "kernelswarm.simulations.reproductions.spppot_shots:reproduce",
    "spppot-mnist": "kernelswarm.simulations.reproductions.digits.spppot_mnist:reproduce",
    "spppot-theory": "kernelswarm.simulations.reproductions.theory.spppot:reproduce",
    "survey-consensus": "kernelswarm.simulations.reproductions.surveys.consensus:reproduce",
    "survey-proximity": "kernelswarm.simulations.reproductions.surveys.proximity:reproduce",
    "survey-theory": "kernelswarm.simulations.reproductions.surveys.theory:reproduce",
    "survey-figure2": "kernelswarm.simulations.reproductions.surveys.competitors:reproduce",
    "krls-lorenz": "kernelswarm.simulations.reproductions.filters.krls_lorenz:reproduce",
    "unreliable-links": "kernelswarm.simulations.reproductions.networks.unreliable:reproduce",
    "faults": "kernelswarm.simulations.reproductions.networks.faults:reproduce",
    "summaries": "kernelswarm.simulations.reproductions.networks.summaries:reproduce",
    "rivals": "kernelswarm.simulations.reproductions.networks.rivals:reproduce",
    "dkla": "kernelswarm.simulations.reproductions.networks.dkla:reproduce",
}
