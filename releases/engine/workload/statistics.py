"""The statistics, each in its own module of ``kinds/``."""

from releases.engine.workload.kinds.categories import Categories
from releases.engine.workload.kinds.largest_count import LargestCount
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.most_common import MostCommon
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.range import Range
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.engine.workload.kinds.sum import Sum
from releases.engine.workload.kinds.survey import Survey
from releases.engine.workload.kinds.threshold import Threshold
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.predicates import Predicates
from releases.engine.workload.statistic import Part, Statistic

__all__ = [
    "Categories",
    "LargestCount",
    "Mean",
    "MostCommon",
    "Part",
    "Predicates",
    "Quantile",
    "Range",
    "SecondMoments",
    "Statistic",
    "Sum",
    "Survey",
    "Threshold",
    "Votes",
]
