"""Configuration of the documentation, built with ``sphinx-build -W docs docs/_build``.

Nothing is fetched from a network: the inventories of other projects lie in
``docs/inventories``, fonts and scripts come with the theme.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import skfairdp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "skfairdp"
author = "skfairdp developers"
copyright = f"2026, {author}"
release = version = skfairdp.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "messages",
    "notebooks",
    "wide_pictures",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = [
    "_build",
    *(f"auto_examples/{d}*.{k}" for d in ("", "**/") for k in ("ipynb", "py")),
]
nitpicky = True

# -- text --------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# -- notebooks: run in every build, but for those whose data set is not at hand ------------

nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# -- API ---------------------------------------------------------------------------------

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
# Each object has one page: where it is offered first.
autosummary_context = {"front": skfairdp.__all__}
autodoc_default_options = {"members": True}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
templates_path = ["_templates"]

# -- other projects ----------------------------------------------------------------------

# (address of the pages, file with their names): see docs/inventories/README.txt.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3.11", str(HERE / "inventories" / "python.inv")),
    "sklearn": ("https://scikit-learn.org/stable", str(HERE / "inventories" / "sklearn.inv")),
}

# -- gallery -----------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"reproduce",
    "doc_module": ("skfairdp",),
    "reference_url": {"skfairdp": None},
    "backreferences_dir": "auto_examples/backreferences",
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "gallery_order.Position",
    # The pictures are shown; none is saved with the sources.
    "reset_argv": "gallery_order.arguments",
    "reset_modules": ("matplotlib", "seaborn", "clean_slate.reset"),
    "plot_gallery": "True",
}

# -- pages -------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "skfairdp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": True,
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# Where the versions of these pages are in neighbouring folders, readers choose from them.
_SITE = os.environ.get("SKFAIRDP_DOCS_SITE")  # such as https://example.org/skfairdp
if _SITE:
    html_theme_options["switcher"] = {
        "json_url": f"{_SITE}/stable/_static/versions.json",
        "version_match": os.environ.get(
            "SKFAIRDP_DOCS_VERSION", "dev" if ".dev" in version else version
        ),
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher", "navbar-icon-links"]
# Pages without subpages have no list at their side.
_ALONE = (
    "index", "start", "guide", "guides/*", "catalogue", "troubleshooting", "scale", "glossary",
    "contributing", "changelog", "governance", "releasing", "roadmap",
)  # fmt: skip
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}


def setup(app: object) -> None:
    """Leave out what scikit-learn adds to every class, and copy the explorer pages."""
    app.connect("autodoc-skip-member", _skip)  # type: ignore[attr-defined]
    app.connect("build-finished", _copy_pages)  # type: ignore[attr-defined]
    app.connect("build-finished", _place_versions)  # type: ignore[attr-defined]
    app.connect("source-read", _keep_together)  # type: ignore[attr-defined]


def _keep_together(_app: object, name: str, source: list[str]) -> None:
    """Leave a figure and its deviation on one line, however narrow the column."""
    if name.startswith("results/"):
        source[0] = source[0].replace(" ± ", "\u00a0±\u00a0")


def _copy_pages(app: object, failure: object) -> None:
    """Copy finished pages to the results that link to them."""
    if failure is None:
        for page in (HERE / "results").glob("*.html"):
            shutil.copy(page, Path(app.outdir) / "results" / page.name)  # type: ignore[attr-defined]


def _place_versions(app: object, failure: object) -> None:
    """Write whole addresses of the versions: a page may lie in any folder."""
    if failure is None and _SITE:
        listed = Path(app.outdir) / "_static" / "versions.json"  # type: ignore[attr-defined]
        versions = json.loads(listed.read_text(encoding="utf-8"))
        placed = [one | {"url": f"{_SITE}/{one['url']}"} for one in versions]
        listed.write_text(json.dumps(placed, indent=2) + "\n", encoding="utf-8")


def _skip(
    _app: object, _what: str, name: str, _member: object, skip: bool, _options: object
) -> bool:
    routing = name.startswith("set_") and name.endswith("_request")
    return skip or routing or name in {"get_metadata_routing", "set_output"}
