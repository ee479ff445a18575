"""Real data sets with declared bounds and categories, and two generators.

Every loader returns a :class:`~sklearn.utils.Bunch` of the same shape, described in
:func:`fetch_adult`. Bounds and categories are written down from codebooks and never computed from
rows, so ``make_pipeline(PublicScaler(b.bounds, log_columns=b.log_columns),
PublicEncoder(b.categories), classifier)`` is private end to end.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
