"""Sphinx configuration."""

import os
import sys
import zlib
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor

sys.path.insert(0, str(Path(__file__).with_name("_extensions")))

from notebooks import is_notebook

project = "pymc-minibatch-mh"
author = "The pymc-minibatch-mh developers"
release = installed_version(project)
version = release

extensions = [
    "formulas",
    "myst_nb",
    "notebooks",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = [
    "_build",
    "jupyter_execute",
    # Generated, and included by pages.
    "background/papers/results",
    "background/peers.md",
]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_substitutions = {"release": release}
myst_heading_anchors = 3
# Notebooks share the compiled functions of the tests, which come before them.
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / "tests" / ".compiled" / "numba")
)
# Kernels read no configuration of the user's, and do not warn of their sockets on this machine.
profile = Path(__file__).with_name("_build") / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
profile.joinpath("ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
os.environ["IPYTHONDIR"] = str(profile.parent)
# A notebook is run when its cells have changed since they were run for `_build`.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).with_name("_build") / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
#: Logs of samplers.
nb_output_stderr = "remove"

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
#: A longer signature has a line for each parameter.
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False

#: Names of other projects that the pages refer to, with their addresses: a build fetches nothing.
ELSEWHERE = {
    "pymc": (
        "https://www.pymc.io/projects/docs/en/stable/",
        {
            "pymc.NUTS": "api/samplers.html",
            "pymc.sample": "api/generated/pymc.sample.html",
            "pymc.sample_posterior_predictive": (
                "api/generated/pymc.sample_posterior_predictive.html"
            ),
        },
    ),
    "arviz": (
        "https://python.arviz.org/projects/",
        {
            "arviz.loo": "stats/en/latest/api/index.html",
            "arviz.plot_forest": "plots/en/latest/gallery/index.html",
            "arviz.plot_trace": "plots/en/latest/gallery/index.html",
            "arviz.summary": "stats/en/latest/api/index.html",
        },
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        {"numpy.ndarray": "reference/generated/numpy.ndarray.html"},
    ),
}


def write_inventory(name: str, addresses: dict[str, str]) -> str:
    """Write the names of one project as Sphinx reads them, and return the file's path."""
    lines = "".join(f"{key} py:function 1 {page} -\n" for key, page in addresses.items())
    head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version:\n"
    head += "# The remainder of this file is compressed using zlib.\n"
    path = Path(__file__).with_name("_build") / "inventories" / f"{name}.inv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress(lines.encode()))
    return str(path)


intersphinx_mapping = {
    name: (address, write_inventory(name, pages)) for name, (address, pages) in ELSEWHERE.items()
}

html_theme = "pydata_sphinx_theme"
html_title = f"{project} {release}"
html_math_renderer = "drawn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = True
#: A page without a section of its own has no list of neighbours to show.
html_sidebars = {"index": []}
html_theme_options = {
    "article_header_end": ["notebook"],
    "header_links_before_dropdown": 7,
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "text": project,
    },
    "navbar_end": ["release", "theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "show_prev_next": True,
}
copybutton_exclude = ".linenos, .gp, .go"


def run_notebooks(app: Any) -> None:
    """Run the notebooks that have changed side by side: Sphinx would run one after the other.

    One that fails is not kept, so Sphinx runs it again and names its error.
    """
    cache = get_cache(nb_execution_cache_path)
    for page in sorted(Path(app.srcdir, "tutorials").glob("*.md")):
        if is_notebook(page):
            reader = {"name": "myst_nb_md", "type": "plugin"}
            cache.add_nb_to_project(str(page), read_data=reader)
    load_executor("local-parallel", cache).run_and_cache(timeout=nb_execution_timeout)


def setup(app: Any) -> None:
    """Have the notebooks run before the pages are read."""
    if app.config.nb_execution_mode == "cache":
        app.connect("builder-inited", run_notebooks)
