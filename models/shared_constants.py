"""Constants that the models share: numbers of intervals, quantiles, shares, and significance."""

from models.numerics import QUANTILES

SIGNIFICANT_Z = 2.0
"""The number of standard errors beyond which a single value hardly lies by chance."""
CERTAIN_Z = 6.0
"""The number of standard errors beyond which not one of many values lies by chance."""
EPISODE_SHARE = 0.1
"""Less than this share of the intervals, or points, is an episode, not a change, and may be left
out; if more look like outliers, the model does not fit, and none is left out."""
MIN_LASTING = 3
"""The least number of intervals that count as lasting; fewer may be a burst, or noise."""
MIN_POINTS = 6
"""The least number of intervals from which a single quantity is estimated."""
MIN_FIT_INTERVALS = 20
"""The least number of intervals that are divided into parts, or that a relation is fitted to."""
MIN_CURVE_POINTS = 40
"""The least number of intervals from which a curve over the load is fitted, to compare with it."""
PERIODS = MIN_CURVE_POINTS
"""The number of periods of a window, at whose borders something may begin or end; the least of such
windows has one interval in each."""
LATEST_INTERVALS = 8
"""The number of latest intervals that show whether the server is still as it was."""
SEEN_QUANTILE = QUANTILES[2]
"""The quantile of throughputs, or utilisations, that counts as seen: it was held for a while."""
HIGH_QUANTILE = 1 - EPISODE_SHARE
"""The quantile of the loads from which on they are high: no episode."""
LOW_QUANTILE = EPISODE_SHARE
"""The quantile of the residence times that counts as that of statements that do not wait, and that
of the use by others per query that counts as work for the server's queries."""
NEAR_SHARE = 0.8
"""A load of at least this share of another one, or a utilisation of its ceiling, is near it."""
MIN_LOAD_RATIO = 1.15
"""The least ratio of high loads to low ones that shows what grows with the load."""
CLEAR_RATIO = 1.25
"""The least ratio of two concurrencies, or costs, that are clearly different."""
FAR_RATIO = 1.5
"""The least ratio of two loads, throughputs or costs that are far apart: with hyper-threads a query
costs half as much again beyond the cores, and that is no second workload."""
GROUP_INTERVALS = 12
"""The least size of a group of similar intervals, and the number of groups, by time or load, that
a window is divided into to compare them."""
MIN_MEETING_CONCURRENCY = 2.0
"""Below this, in threads (for each processor), statements hardly ever meet: they do not contend,
and do not queue for a processor."""
MAJORITY = 0.5
"""More than this share of something is most of it; a probability above it means likely."""
TOLERATED_CHANGE = 0.11
"""A relative change of less is neglected. A capacity that one cause may change by more, or that an
uncertain law sets with a greater probability, is not trusted; a change of a query's cost by less is
not worth the loss of the older intervals."""
FALSE_SIGN_PROBABILITY = EPISODE_SHARE
"""The probability that an apparent sign means nothing: it is of an episode."""
MIN_NOISE = 0.01
"""The least deviation of a share, and of a logarithm: no measurement is more exact."""
QUERY_VARIATION = 0.03
"""The least deviation of the logarithm of the cost, and of the time, of a query."""
LIKELY, POSSIBLE, UNLIKELY = 0.6, 0.3, 0.1
"""The scale of prior probabilities, of models up to a factor that all have in common."""
