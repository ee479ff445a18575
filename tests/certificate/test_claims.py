from __future__ import annotations

import dataclasses
import json
import math
import pickle
import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pandas as pd
import pytest

from skfairdp import Certificate, certify
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.kinds import KINDS
from skfairdp.privacy import PrivacyGuarantee
from tests.certificate.fakes import ThresholdClassifier, stated

matplotlib.use("Agg")


def claim(bound=0.1041, **changes):
    values = {
        "notion": "demographic_parity",
        "bound": bound,
        "scope": "deployed model",
        "method": "exact",
        "estimate": bound / 2,
        "confidence_level": 0.95,
        "groups": ("a", "b"),
        "counts": (CellCount("a", "", 1, 2), CellCount(("b", 1), "", 1, 2)),
        "assumptions": ("rows are independent",),
    }
    return FairnessGuarantee(**(values | changes))


def certificate(*fairness, **changes):
    values = {
        "privacy": dataclasses.replace(stated(), epsilon=1.0, accountant="PLD"),
        "fairness": fairness or (claim(),),
        "model_digest": "sha256:0",
        "model_name": "Model",
        "n_rows": 596,
        "created": "2024-01-01T00:00:00+00:00",
        "versions": (("numpy", "2"),),
    }
    return Certificate(**(values | changes))


def test_first_line_is_the_sentence():
    found = str(certificate()).splitlines()[0]
    assert found == (
        "With 95 % confidence the selection rates of any two groups differ by at most 0.105 on "
        "people like the 596 held out; the training records are protected with ε = 1.0, δ = 1e-6."
    )
    assert repr(certificate()) == str(certificate())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": None}, "the training records are not protected (trained with epsilon=inf)"),
        ({"privacy": PrivacyGuarantee.void("x")}, "nothing is promised about the privacy"),
        (
            {"privacy": stated(protects="sensitive_features")},
            "the sensitive features of the training records are protected",
        ),
        ({"n_rows": None}, "people like those held out"),
        ({"fairness": ()}, "Nothing is claimed about differences"),
        ({"fairness": (claim(1.0),)}, "No useful bound on differences in selection rates"),
        (
            {"fairness": (claim(), claim(0.2, notion="equal_opportunity"))},
            "differ by at most 0.105 and their true positive rates by at most 0.200",
        ),
        (
            {"fairness": (claim(scope="any downstream predictor", confidence_level=None),)},
            "Whatever is predicted",
        ),
        (
            {"fairness": (claim(scope="training mechanism", confidence_level=None),)},
            "Averaged over the noise of training (not for this one model)",
        ),
        (
            {"fairness": (claim(counts=(CellCount("a", "", 1, 2, noisy=True),)),)},
            "the training and held-out records are protected",
        ),
    ],
)
def test_sentence_adapts_to_what_is_known(changes, words):
    assert words in certificate(**changes).sentence


def test_a_bound_never_stands_without_scope_confidence_and_assumptions():
    text = str(certificate())
    assert "[deployed model; 95 % confidence; people like the 596 held out; exact]" in text
    assert "rows are independent" in text
    assert "1.000" not in str(certificate(claim(1.0)))


def test_json_round_trip_gives_an_equal_certificate(model, rows):
    original = certify(
        model,
        rows.X,
        rows.y,
        sensitive_features=rows.groups,
        notion=["demographic_parity", "accuracy_parity"],
        count_epsilon=1.0,
    )
    restored = Certificate.from_json(original.to_json())
    assert restored == original
    assert restored.created == original.created
    assert restored.library_versions == original.library_versions
    assert str(restored) == str(original)


@pytest.mark.parametrize("privacy", [None, PrivacyGuarantee.void("because")])
def test_json_knows_no_infinity(privacy):
    original = certificate(privacy=privacy)
    text = original.to_json()
    assert "Infinity" not in text
    assert "NaN" not in text
    assert Certificate.from_json(text) == original
    if privacy is not None:
        assert json.loads(text)["privacy"]["epsilon"] == "inf"


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "other"}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="format"):
        Certificate.from_json(text)


def test_time_and_versions_are_not_part_of_equality():
    assert certificate() == certificate(created="later", versions=(("numpy", "3"),))
    assert certificate() != certificate(model_digest="sha256:1")
    assert certificate() != certificate(claim(0.2))


def test_certificates_cannot_be_changed_and_can_be_pickled():
    one = certificate()
    with pytest.raises(AttributeError):
        one.model_digest = "sha256:1"
    one.library_versions["numpy"] = "0"
    assert one.library_versions["numpy"] == "2"
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"epsilon": 1.0}, True),
        ({"epsilon": 0.9}, False),
        ({"epsilon": 1.0, "delta": 1e-9}, False),
        ({"epsilon": 1.0, "adjacency": "add-remove"}, False),
        ({"epsilon": 1.0, "protects": "sensitive_features"}, False),
        ({"tolerance": 0.1041}, True),
        ({"tolerance": 0.104}, False),
        ({"epsilon": 1.0, "tolerance": 0.2}, True),
        ({"epsilon": 0.5, "tolerance": 0.2}, False),
        ({"tolerance": 0.2, "notion": "demographic_parity"}, True),
        ({"tolerance": 0.2, "notion": "equal_opportunity"}, False),
        ({"tolerance": 0.2, "confidence_level": 0.95}, True),
        ({"tolerance": 0.2, "confidence_level": 0.99}, False),
        ({"tolerance": 0.2, "scope": "training mechanism"}, False),
    ],
)
def test_satisfies_needs_everything_that_is_asked(asked, answer):
    assert certificate().satisfies(**asked) is answer


def test_every_certified_notion_must_be_within_the_tolerance():
    both = certificate(claim(0.1), claim(0.3, notion="equal_opportunity"))
    assert not both.satisfies(tolerance=0.2)
    assert both.satisfies(tolerance=0.2, notion="demographic_parity")
    assert both.satisfies(tolerance=0.3)


def test_a_claim_about_training_is_not_one_about_the_model():
    only = certificate(claim(0.1, scope="training mechanism", confidence_level=None))
    assert not only.satisfies(tolerance=0.5)
    assert only.satisfies(tolerance=0.5, scope="training mechanism")
    downstream = certificate(claim(0.1, scope="any downstream predictor", confidence_level=None))
    assert not downstream.satisfies(tolerance=0.5)
    asked = {"tolerance": 0.5, "confidence_level": 0.999}
    assert downstream.satisfies(**asked, scope="any downstream predictor")


@pytest.mark.parametrize(
    ("scope", "level"), [("averaged over its draws", 0.95), ("any population", None)]
)
def test_an_average_over_draws_is_not_a_claim_about_the_model(scope, level):
    average = claim(0.1, scope=scope, confidence_level=level)
    for case in (certificate(average), certificate(claim(0.45), average)):
        assert not case.satisfies(tolerance=0.4)
        assert case.satisfies(tolerance=0.4, scope=scope)
    assert certificate(claim(0.45), average).sentence.startswith("With 95 % confidence the selec")
    alone = certificate(average)
    assert "averaged over the model's random draws (not for this one model)" in alone.sentence
    for text in (str(alone), alone._repr_html_(), alone.to_html(), alone.to_model_card()):
        assert "averaged over the model" in text
        assert f"{scope[1:]}; " in text
    assert Certificate.from_json(alone.to_json()) == alone


@pytest.mark.parametrize(("scope", "level"), [("deployed model", None), ("any population", 0.95)])
def test_only_bounds_from_rows_have_a_confidence(scope, level):
    with pytest.raises(ValueError, match="contradicts scope"):
        claim(scope=scope, confidence_level=level)


@pytest.mark.parametrize(
    "changes",
    [
        {"derivation": Derivation.of("length of the weights", norm=1.0, std=20.0)},
        {
            "derivation": Derivation.of(
                "last head step", **dict.fromkeys(KINDS["last head step"].inputs)
            )
        },
        {"derivation": Derivation.of("local release", epsilon=0.1)},
        {"counts": (CellCount("a", "", 0.5, 2),)},
    ],
    ids=["weights", "last step", "release", "sums of probabilities"],
)
def test_nothing_but_counts_of_answers_can_be_sold_as_a_bound_on_the_model(changes):
    with pytest.raises(ValueError, match="scope='deployed model'"):
        claim(**changes)


def test_nothing_certified_satisfies_nothing():
    empty = certificate(privacy=None, fairness=())
    assert not empty.satisfies(tolerance=1.0)
    assert not empty.satisfies(epsilon=1e9)
    with pytest.raises(ValueError, match="needs epsilon"):
        empty.satisfies()
    with pytest.raises(ValueError, match="scope="):
        empty.satisfies(tolerance=0.1, scope="everything")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"tolerance": 5}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"tolerance": 0.1, "notion": "parity"}, "notion"),
        ({"tolerance": 0.1, "confidence_level": 95}, "confidence_level"),
        ({"tolerance": 0.1, "delta": 1e-6}, "delta"),
        ({"epsilon": 1.0, "notion": "demographic_parity"}, "notion"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(asked, named):
    with pytest.raises(ValueError, match=named):
        certificate().satisfies(**asked)


def test_half_a_document_is_refused():
    with pytest.raises(ValueError, match="not a whole certificate"):
        Certificate.from_json(json.dumps({"format": "skfairdp certificate 1"}))


def test_the_text_explains_its_figures():
    text = str(certificate())
    assert "more than e^ε = 2.72 times as likely with one of the two as with the other" in text
    assert "protects: everything about one training record" in text
    assert "Demographic parity means: The share of people who are given" in text
    assert "e^ε times" in str(certificate(privacy=dataclasses.replace(stated(), epsilon=900.0)))


def test_a_group_that_neighbours_share_is_not_called_protected():
    shared = dataclasses.replace(stated(), adjacency="zero-out")
    declared = dataclasses.replace(stated(), adjacency="add-remove")
    for show in (str, Certificate._repr_html_):
        assert "training record except its group" in show(certificate(privacy=shared))
        assert "except its group" not in show(certificate(privacy=declared))


def test_noisy_counts_do_not_make_held_out_rows_unprotected():
    noisy = claim(counts=(CellCount("a", "", 1, 2, noisy=True),))
    assert "held-out" not in certificate(noisy, privacy=None).sentence


def test_frame_has_a_row_for_each_claim():
    frame = certificate(claim(), claim(1.0, notion="equalized_odds", estimate=None)).to_frame()
    assert frame["claim"].tolist() == ["privacy", "demographic_parity", "equalized_odds"]
    assert frame["value"].tolist() == [1.0, 0.1041, 1.0]
    assert frame["informative"].tolist() == [True, True, False]
    assert frame["value"].dtype == np.float64
    empty = certificate(privacy=None, fairness=()).to_frame()
    assert list(empty.columns) == list(frame.columns)
    assert empty["value"].tolist() == [math.inf]
    assert empty["scope"].tolist() == ["none: trained with epsilon=inf"]
    assert math.isinf(certificate(privacy=PrivacyGuarantee.void("x")).to_frame()["value"][0])
    assert isinstance(frame, pd.DataFrame)


class Outline(HTMLParser):
    """Checks that tags nest, and keeps the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], "", set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "case",
    [
        certificate(),
        certificate(claim(1.0, estimate=None, confidence_level=None, scope="any population")),
        certificate(privacy=None, fairness=(), remarks=("No groups.",)),
        certificate(privacy=PrivacyGuarantee.void("because <b>")),
        certificate(privacy=dataclasses.replace(stated(), per_group={"a": 0.1, ("b", 1): 0.2})),
    ],
)
def test_page_is_well_formed_and_says_the_sentence(case):
    outline = Outline()
    outline.feed(case._repr_html_())
    assert outline.open == []
    assert case.sentence in outline.text
    assert "at most 1.000" not in outline.text
    assert "≤ 1.000" not in outline.text


def test_page_escapes_what_comes_from_the_data():
    evil = "<script>alert(1)</script>"
    counts = (CellCount(evil, evil, 1, 2),)
    case = certificate(
        claim(groups=(evil,), counts=counts, assumptions=(evil,)),
        model_name=evil,
        remarks=(evil,),
        privacy=PrivacyGuarantee.void(evil),
    )
    outline = Outline()
    outline.feed(case._repr_html_())
    assert "script" not in outline.tags
    assert outline.text.count("alert(1)") >= 5
    assert not re.search(r"https?://", case._repr_html_())


def test_plot_shows_bound_estimate_and_threshold():
    from matplotlib import pyplot as plt

    case = certificate(claim(), claim(1.0, notion="equalized_odds", estimate=0.4))
    ax = case.plot(threshold=0.2)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["0.105", "no useful bound"]
    assert [label.get_text().split("\n")[0] for label in ax.get_yticklabels()] == [
        "demographic parity",
        "equalized odds",
    ]
    _, labels = ax.get_legend_handles_labels()
    assert set(labels) == {"observed", "upper bound", "threshold 0.2"}
    assert certificate().plot(ax=ax) is ax
    plt.close("all")
    with pytest.raises(ValueError, match="no fairness claim"):
        certificate(fairness=()).plot()


def test_a_certificate_belongs_to_one_fitted_state(model, rows):
    issued = certify(model)
    assert issued.verify(model)
    other = ThresholdClassifier((1.0, 0.5)).fit(rows.X, rows.y, sensitive_features=rows.groups)
    assert not issued.verify(other)


def test_claims_before_evaluation_are_those_of_the_mechanism(model):
    issued = certify(model, notion=["demographic_parity", "equal_opportunity"])
    assert [c.scope for c in issued.fairness] == ["training mechanism"]
    assert issued.n_rows is None
    assert issued.privacy == stated()


def test_versions_name_the_libraries(model):
    assert {"python", "skfairdp", "dp-accounting", "torch"} <= set(certify(model).library_versions)
