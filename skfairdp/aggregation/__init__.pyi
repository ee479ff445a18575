from .pate import FairPATEClassifier, PATEClassifier
from .query_rows import PublicRows
from .sfpate import ReweighedClassifier, SFPATEClassifier
from .shards import assign_shards
from .student import Student, default_student, train_student
from .teachers.ensemble import Teachers
from .teachers.training import default_teacher, train_teachers
from .voting import ConfidentGNMax, Transcript, release_labels
from .voting_plan import VotingNoise, voting_plan

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
    "default_student",
    "default_teacher",
    "release_labels",
    "train_student",
    "train_teachers",
    "voting_plan",
]
