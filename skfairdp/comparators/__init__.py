"""Fair methods without privacy, to compare private ones with: nothing here is the product.

Each learns from rows in the open: nothing that it releases is private, and a certificate
says so. The encoders are the comparators of Xie, Wu, Li,
Ding and Letaief (2024), written from the methods' papers; where the published code does
something else than its paper, the pages on theory say what we do.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
