"""Private classifiers, with certificates of their privacy and of differences between groups."""

import threading
from typing import Any

import lazy_loader

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_one_at_a_time = threading.RLock()

__version__ = "0.2.0.dev0"  # ".dev0" until it is released (docs/releasing.md)


def __getattr__(name: str) -> Any:
    if name not in __all__:  # no module inside asks for others, so none waits for itself
        return _find(name)
    # Numpy and scikit-learn are left half imported where several threads are the first to ask.
    with _one_at_a_time:
        return _find(name)
