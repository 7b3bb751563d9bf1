"""Sphinx's configuration. `nox -s docs` builds, with every warning an error and no network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # where generated.py is

from hostwheel import __version__

project = "hostwheel"
release = __version__
copyright = "the hostwheel contributors, MIT licence"
extensions = ["myst_parser", "generated"]
myst_heading_anchors = 3  # links to headings are checked too
html_theme = "furo"
html_title = "hostwheel"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
exclude_patterns = ["_build"]
