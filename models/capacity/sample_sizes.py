"""How many intervals a statistic needs, and which ones it uses: the same numbers everywhere."""

MIN_LASTING = 3
"""Fewer intervals may be a burst, or noise."""
MIN_POINTS = 6
"""So many intervals must tell a number of the server."""
MIN_CURVE_POINTS = 32
"""So many intervals must tell a curve over the load, before anything is judged by it."""
PERIODS = 40
"""A window is cut into so many periods where something may begin or end."""
LATEST_INTERVALS = 8
"""So many of the last intervals tell whether the server is still what it was."""
SEEN_QUANTILE = 0.95
"""The quantile of throughputs, or utilisations, that counts as seen: it was held for a while."""
HIGH_QUANTILE = 0.9
"""From this quantile of the loads on they are high."""
NEAR_SHARE = 0.8
"""A load of at least this share of another one is near it."""
MIN_SPREAD = 1.15
"""High loads over low ones: nearer together they show nothing of what grows with them."""
WINDOW_PARTS = 8
"""A window is cut into so many parts, by time or by load, to compare them."""
GROUP_INTERVALS = 12
"""So many intervals alike have a level of their own; in more groups than this nothing is gained."""
MAJORITY = 0.5
"""More than this share of something is most of it, and what is more probable is likely."""
EPISODE_SHARE = 0.1
"""Less than this share of the intervals is an episode: it may be left out, and is no change."""
FALSE_SIGN_PROBABILITY = 0.1
"""The probability that what looks like a sign is none: that it tells nothing."""
SIGNIFICANT_Z = 2.0
"""So many standard errors off something is hardly by chance."""
CERTAIN_Z = 6.0
"""So many standard errors off it is none of many that are off by chance."""
MIN_NOISE = 0.01
"""No measurement is more exact: the least deviation of a share, and of a logarithm."""
QUERY_VARIATION = 0.03
"""The least deviation of ln of what single queries cost, and of how long they take."""
