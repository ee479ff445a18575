"""Privacy: the plan, its cost, the guarantee, and the noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
