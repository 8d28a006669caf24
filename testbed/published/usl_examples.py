"""Examples of the law's literature: concurrency (threads), throughput (queries/s), source."""

CISCO = (
    [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
    ],
    [
        955.16,
        1878.91,
        2688.01,
        3548.68,
        4315.54,
        5130.43,
        5931.37,
        6531.08,
        7219.8,
        7867.61,
        8278.71,
        8646.7,
        9047.84,
        9426.55,
        9645.37,
        9897.24,
        10097.6,
        10240.5,
        10532.39,
        10798.52,
        11151.43,
        11518.63,
        11806,
        12089.37,
        12075.41,
        12177.29,
        12211.41,
        12158.93,
        12155.27,
        12118.04,
        12140.4,
        12074.39,
    ],
)
"""V. Tkachenko, Percona Server on Cisco UCS (2010); example of codahale's usl4j."""

SPECSDM91 = (
    [1, 18, 36, 72, 108, 144, 216],
    [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775, 1702.2],
)
"""SPEC SDM91 benchmark; Gunther, Guerrilla Capacity Planning; demo data of R package usl."""

RAYTRACER = (
    [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64],
    [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310],
)
"""A ray tracer on NUMA; Gunther, Guerrilla Capacity Planning; demo data of R package usl."""

SYNTHETIC = (
    [1, 2, 4, 6, 8, 10],
    [1, 1.8868, 3.0769, 3.5294, 3.5398, 3.3557],
)
"""Test of R package usl: σ = κ = 0.02, λ = 1, rounded to four decimals."""

SYSBENCH_RW = (
    [1, 3, 5, 8, 13, 20, 31, 46, 68, 100, 145, 210, 300, 430, 630, 870, 1000, 1200],
    [
        367.9925234,
        1120.109259,
        1776.861628,
        2469.033519,
        4039.905741,
        5748.598704,
        8292.149444,
        10686.4687,
        12517.67,
        13365.85056,
        13580.6987,
        12824.38204,
        12293.82833,
        11895.76685,
        9165.47,
        5045.295926,
        3883.725185,
        2640.279444,
    ],
)
"""Percona (2016): sysbench OLTP read-write on MySQL 5.7, 56 hardware threads."""

WHITE_PAPER = ([1, 2, 4, 8, 16], [955.16, 1878.91, 3548.68, 6531.08, 9897.24])
"""B. Schwartz, E. Fortune: Forecasting MySQL Scalability with the USL, system 1."""
