"""The order in which the gallery is read."""

from __future__ import annotations

import tempfile

ORDER = (
    "plot_quickstart.py",
    "plot_fair_path.py",
    "plot_compare_with_reductions.py",
    "plot_search_and_frontier.py",
    "plot_grid_search_privacy.py",
    "plot_monitor.py",
    "plot_fairpate.py",
    "plot_private_representation.py",
)


class Position:
    """Sort key of sphinx-gallery; a new example stands last until it is named above."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Place of a file, and its name."""
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def arguments(_gallery_conf: dict, script_vars: dict) -> list[str]:
    """Let the quickstart save its files outside the sources."""
    quickstart = script_vars["src_file"].endswith("plot_quickstart.py")
    return ["--out", f"{tempfile.gettempdir()}/skfairdp-quickstart"] if quickstart else []
