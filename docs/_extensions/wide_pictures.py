"""Mark pictures of several panels, which pages show at a readable height and scroll."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image

# Width over height, from which a picture scrolls on narrow screens, and on all
WIDE, PANORAMA = 2.0, 2.5
LARGE = 1250  # Pixels of width, of which a page would show less than half


def mark(app: Any, doctree: nodes.document) -> None:
    """Add the classes ``wide``, ``panorama`` and ``large`` to pictures of several panels."""
    for picture in doctree.findall(nodes.image):
        file = Path(app.srcdir, picture["uri"])
        if file.suffix == ".png" and file.is_file():
            with Image.open(file) as opened:
                width, height = opened.size
            if width > WIDE * height:
                picture["classes"].append("wide")
            if width > PANORAMA * height:
                picture["classes"].append("panorama")
            elif width > LARGE:
                picture["classes"].append("large")


def reach(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the keyboard reach what scrolls."""
    if "body" in context:
        picture = r'<p>(?=<img [^>]*class="[^"]*\b(?:wide|large)\b)'
        context["body"] = re.sub(picture, '<p tabindex="0">', context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Look at each page once its pictures have been found."""
    app.connect("doctree-read", mark)
    app.connect("html-page-context", reach)
    return {"parallel_read_safe": True}
