"""Fair methods without privacy, for comparison with the private ones.

They learn from rows without noise, so none of their releases is private, and a certificate
says so. The encoders are the comparators of Xie, Wu, Li, Ding and Letaief (2024), written from
the methods' papers. Where published code differs from its paper, the pages on theory say which of
the two is followed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
