"""How Sphinx builds the book: `python -m sphinx --fail-on-warning docs book`.

The pages are plain Markdown. The theme is Sphinx's own `basic` with a style sheet and without inline scripts and
styles, so that the emulator serves the book under the strict policy of its other pages, search included (D-745).
"""

from __future__ import annotations

import runpy
from pathlib import Path

_HERE = Path(__file__).parent

project = "svc-emulator"
# By its path: the book is made while the package is built, when nothing of it can be imported.
version = release = str(runpy.run_path(str(_HERE.parent / "emulator" / "version.py"))["VERSION"])
author = "svc-emulator contributors"
project_copyright = author
language = "en"

extensions = ["myst_parser"]
# The second ones are for programs, and served elsewhere.
exclude_patterns = ["_theme", "llms*"]
myst_heading_anchors = 3
# Colours and weights come from the style sheet, for light and dark.
pygments_style = "default"
nitpicky = True
smartquotes = False

html_theme = "book"
html_theme_path = [str(_HERE / "_theme")]
html_title = f"svc-emulator {release}"
html_short_title = "svc-emulator"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_domain_indices = False
html_show_sphinx = False
html_show_copyright = False
html_permalinks_icon = "#"
html_css_files = ["book.css"]
