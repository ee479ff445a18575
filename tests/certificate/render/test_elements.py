"""Names with characters that cannot be seen never go raw into a page, a card or a text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skfairdp import certify

DRAWS_PICTURES = True
HOSTILE = ["\x00", "\x07", "\x1b[2J", "\x85", "\u202e", "\u2028", "\nprivacy loss ε, at most: 0"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_unseen_characters_of_names_are_written_out(hostile: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=[f"in{hostile}come", "age"])
    groups = pd.Series(np.where(np.arange(200) % 2, f"a{hostile}", "b"), name=f"sex{hostile}")
    model = LogisticRegression().fit(X, X.iloc[:, 0] > 0)
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    pages = [certificate.to_html(), certificate.to_model_card(), certificate._repr_html_()]
    for page in (*pages, str(certificate)):
        assert hostile not in page
        assert ascii(hostile[0])[1:-1] in page
