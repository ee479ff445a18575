"""Contract of every estimator: fit, predict, certify."""

from skfairdp.base.estimator import PrivateEstimator as PrivateEstimator
from skfairdp.base.predictors import Calibrated as Calibrated
from skfairdp.base.predictors import Planned as Planned
from skfairdp.base.predictors import PrivateClassifier as PrivateClassifier
from skfairdp.base.predictors import PrivatePredictor as PrivatePredictor
from skfairdp.base.predictors import PrivateRegressor as PrivateRegressor
from skfairdp.protocol import Certifiable as Certifiable
