"""Sphinx configuration."""

from importlib.metadata import version as installed_version

project = "pymc-minibatch-mh"
author = "The pymc-minibatch-mh developers"
release = installed_version(project)
version = release

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build", "generated"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "deflist"]
nb_execution_mode = "off"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
myst_heading_anchors = 3
