"""Give every example of the gallery scikit-learn's default configuration."""

from __future__ import annotations

import sklearn


def reset(_gallery_conf: dict, _name: str) -> None:
    """Turn metadata routing off again, whatever the example before has set."""
    sklearn.set_config(enable_metadata_routing=False)
