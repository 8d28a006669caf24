"""How many intervals a statistic needs, and which ones it uses: the same numbers everywhere."""

FEWEST = 3
"""Fewer intervals may be a burst, or noise."""
MIN_POINTS = 6
"""So many intervals must tell a number of the server."""
MIN_CURVE = 32
"""So many intervals must tell a curve over the load, before anything is judged by it."""
PERIODS = 40
"""A window is cut into so many periods where something may begin or end."""
LATEST = 8
"""So many of the last intervals tell whether the server is still what it was."""
SEEN = 0.95
"""The quantile of throughputs, or utilisations, that counts as seen: it was held for a while."""
HIGH = 0.9
"""From this quantile of the loads on they are high."""
NEAR = 0.8
"""A load of at least this share of another one is near it."""
MIN_SPREAD = 1.15
"""High loads over low ones: nearer together they show nothing of what grows with them."""
PARTS = 8
"""A window is cut into so many parts, by time or by load, to compare them."""
GROUP = 12
"""So many intervals alike have a level of their own; in more groups than this nothing is gained."""
MOSTLY = 0.5
"""More than this share of something is most of it, and what is more probable is likely."""
EPISODE = 0.1
"""Less than this share of the intervals is an episode: it may be left out, and is no change."""
MISLED = 0.1
"""The probability that what looks like a sign is none: that it tells nothing."""
SURE = 2.0
"""So many standard errors off something is hardly by chance."""
BEYOND_DOUBT = 6.0
"""So many standard errors off it is none of many that are off by chance."""
NOISE = 0.01
"""No measurement is more exact: the least deviation of a share, and of a logarithm."""
VARIES = 0.03
"""The least deviation of ln of what single queries cost, and of how long they take."""
