"""Copy the notebooks to the pages; those without their data set are not run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from skfairdp import datasets

_NEEDS = {"credit": "fetch_default_credit", "hospital": "fetch_diabetes130"}


def _copy(app: Any, config: Any) -> None:
    here = Path(app.srcdir)
    for notebook in sorted((here.parent / "examples" / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, here / "notebooks" / notebook.name)
        if notebook.stem in _NEEDS:
            try:
                getattr(datasets, _NEEDS[notebook.stem])()
            except FileNotFoundError:
                config.nb_execution_excludepatterns.append(f"notebooks/{notebook.name}")


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("config-inited", _copy)
    return {"parallel_read_safe": True}
