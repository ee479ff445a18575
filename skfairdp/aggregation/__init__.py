"""Private aggregation of teachers trained on disjoint shards."""

from skfairdp.aggregation.fairpate import FairPATEClassifier
from skfairdp.aggregation.pate import PATEClassifier
from skfairdp.aggregation.private_cost import data_dependent_rdp
from skfairdp.aggregation.public_rows import PublicRows
from skfairdp.aggregation.reweighing import ReweighedClassifier
from skfairdp.aggregation.sfpate import SFPATEClassifier
from skfairdp.aggregation.shards import assign_shards
from skfairdp.aggregation.student import Student, default_student, train_student
from skfairdp.aggregation.teachers.ensemble import Teachers
from skfairdp.aggregation.teachers.training import default_teacher, train_teachers
from skfairdp.aggregation.voting import ConfidentGNMax, Transcript, release_labels
from skfairdp.aggregation.voting_plan import VotingNoise, voting_plan

__all__ = [
    "ConfidentGNMax",
    "FairPATEClassifier",
    "PATEClassifier",
    "PublicRows",
    "ReweighedClassifier",
    "SFPATEClassifier",
    "Student",
    "Teachers",
    "Transcript",
    "VotingNoise",
    "assign_shards",
    "data_dependent_rdp",
    "default_student",
    "default_teacher",
    "release_labels",
    "train_student",
    "train_teachers",
    "voting_plan",
]
