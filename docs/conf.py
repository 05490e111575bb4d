"""How Sphinx builds the documentation site: `tox run -e docs`.

The source folder is the checkout, so that the README, CONTRIBUTING.md and the other documents at its top are
pages of the site and links between all of them work. Nothing is fetched while it is built.
"""

import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(_ROOT))  # where autodoc finds the package, which is not installed

project = "pflow-mcp"
author = "The pflow-mcp authors"
copyright = author  # noqa: A001  # Sphinx reads the option by this name
release = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "examples/*.md"]
exclude_patterns = [".*", "benchmarks", "build", "pflow_mcp_plugin", "tests"]

# Headings are link targets as on a code host: `failures.md#deadlines-of-a-server`.
myst_heading_anchors = 3

# Docstrings mark code with single backquotes.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"pflow-mcp {release}"
html_copy_source = False
html_extra_path = ["site"]  # sends the site's top to docs/index.html
