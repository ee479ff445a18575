"""Names with characters that cannot be seen never go raw into a page, a card or a text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skfairdp import certify
from skfairdp.certificate.render.elements import Table
from skfairdp.certificate.render.record_sections import of_path

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


class Path:
    """A fitted path of two points, the first of which is in use."""

    multiplier_ = 0.5

    def path(self) -> pd.DataFrame:
        names = ("tolerance", "multiplier", "gap", "gap_std", "accuracy", "accuracy_std")
        return pd.DataFrame([[0.1, 0.5, 0.1, 0.01, 0.8, 0.01], [0.2] * 6], columns=names)

    def plot_path(self, **options: object) -> None:
        raise AssertionError(options)


def test_points_of_a_path_have_a_heading_over_every_column() -> None:
    (table,) = (each for each in of_path(Path()).elements if isinstance(each, Table))
    assert all(table.headings)
    assert [row[-1] for row in table.rows] == ["yes", "no"]
