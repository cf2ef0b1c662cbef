"""How Sphinx makes the site: ``make docs`` writes it to build/docs, and needs no network to build or to read it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER / "extensions"))

from matplotlib import rcParams  # noqa: E402

import kernelswarm  # noqa: E402
from kernelswarm.simulations.figures import style  # noqa: E402

project = "kernelswarm"
author = "the kernelswarm developers"
copyright = f"{author}, Apache-2.0"
release = version = kernelswarm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "claims",
    "docstrings",
    "links_to_code",
    "math_in_the_page",
    "parts_by_name",
]
exclude_patterns = ["extensions", "templates"]
suppress_warnings = ["config.cache"]

# Pages are Markdown that reads the same in a repository's browser.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]

# Docstrings are numpydoc; what stands between single backticks is code.
default_role = "literal"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
strip_signature_backslash = True  # names that end with an underscore
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
templates_path = ["templates"]
smartquotes_action = "D"  # dashes, no quotes: l' is a derivative
highlight_language = "none"  # indented blocks are formulas and commands
toc_object_entries = False


def one_look(gallery: dict[str, object], example: str) -> None:
    """Give the figures of the examples the colours and sizes of all others."""
    rcParams.update(style.RC)


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", one_look),
    "examples_dirs": ["../examples/gallery", "../examples/stories"],
    "gallery_dirs": ["gallery", "stories"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "backreferences_dir": None,
    "matplotlib_animations": False,
    "thumbnail_size": (900, 400),  # of figures with several panels, two side by side, see static/site.css
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# make links
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False  # of pages that a script builds in the browser

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "kernelswarm"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(FOLDER / "static/search_order.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
