"""Published curves: throughput by concurrency (threads), measured to their peak or past it.

Tables as their authors printed them, one row a concurrency, one column a curve. Each table is one
machine and one workload: a family. Families of one author and one server are a study, and their
curves resemble each other, so that a rule found on some is to be tried on other studies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from testbed.published import sysbench_tables
from testbed.published.usl_examples import CISCO, RAYTRACER, SPECSDM91, SYSBENCH_RW


@dataclass(frozen=True, eq=False)
class Curve:
    """Concurrency n (threads) and throughput x (queries/s or transactions/s)."""

    family: str
    name: str
    n: Array
    x: Array

    @property
    def study(self) -> str:
        """The author and the server."""
        return STUDIES[self.family]

    @property
    def author(self) -> str:
        """The author, or the company that published."""
        return AUTHORS.get(self.study, self.study)

    @property
    def x_max(self) -> float:
        """The greatest throughput that was measured."""
        return float(self.x.max())

    def below(self, share: float) -> tuple[Array, Array]:
        """Cut at a share of the peak: what was measured at fewer threads than the peak's."""
        kept = (self.n < self.n[int(np.argmax(self.x))]) & (self.x <= share * self.x_max)
        return self.n[kept], self.x[kept]

    def up_to(self, share: float) -> tuple[Array, Array]:
        """Cut at a share of the peak's concurrency."""
        kept = self.n <= share * self.n[int(np.argmax(self.x))]
        return self.n[kept], self.x[kept]


def parse_table(family: str, table: str) -> list[Curve]:
    """Parse a table: the names of its curves, then rows of a concurrency and a throughput each."""
    names, *rows = (line.split() for line in table.strip().splitlines())
    values = np.array(rows, dtype=float)
    return [
        Curve(family, f"{family}: {name}", values[:, 0], values[:, i])
        for i, name in enumerate(names, 1)
    ]


def pair(family: str, points: tuple[Sequence[float], Sequence[float]]) -> Curve:
    """Build a curve that is published as two rows."""
    n, x = (np.array(values, dtype=float) for values in points)
    return Curve(family, family, n, x)


# A. Schwenke, mariadb-benchmarks (GitHub, hgxl64/mariadb-benchmarks), 2012–2018

RO_5X = """
 mysql-5.6 mysql-5.6-tcmalloc mariadb-10.0 mysql-5.5 mariadb-5.5-tcmalloc
1    609.25 624.90 677.13 665.87 712.57
2    1341.6 1354.9 1378.4 1415.2 1477.9
4    2469.3 2599.7 2539.7 2601.5 2891.7
8    4696.4 5014.2 4792.5 4823.4 5154.7
16   8552.6 9208.1 7780.9 7656.7 8091.3
32   14179  15717  9401.1 9445.4 9928.3
64   14715  19395  8772.1 9567.1 9685.0
128  12822  16000  9237.6 9792.2 10164
256  11089  12665  9124.1 8842.5 9723.6
512  8835.4 10336  7751.6 7409.9 8681.8
1024 5473.0 6747.3 1834.2 2920.3 5645.7
"""
"""Series 25: sysbench OLTP read-only, transactions/s."""

RO_TOC = """
 mysql-5.6 mysql-5.6-segmented mariadb-10.0 mysql-5.5 mariadb-5.5
1    620.75 625.81 693.69 682.74 715.63
2    1323.1 1391.8 1464.7 1509.3 1546.8
4    2536.9 2676.3 2809.8 2951.8 2975.3
8    4952.5 5112.1 5294.1 5053.2 5364.3
16   9173.9 9340.3 8136.5 8295.6 8323.4
32   14571  16159  9924.1 9863.6 10007
64   10403  21731  9418.4 10682  9940.5
128  10947  20137  9747.0 10766  10223
256  10484  15772  9180.4 9982.4 9671.3
512  7632.4 9862.0 6936.6 8023.2 7731.4
1024 4752.2 5491.4 4451.8 5761.0 5248.7
"""
"""Series 26: as series 25, another configuration of the table cache."""

CHECKSUM_RO = """
 doublewrite atomic fast-checksum no-checksum
1   194.36 212.71 233.40 229.01
2   418.43 419.28 444.62 472.53
4   887.89 900.68 984.23 983.47
8   1729.8 1672.8 1837.5 1881.8
16  2507.4 2509.9 2601.1 2632.0
32  2944.1 2946.2 2990.4 3002.6
64  2837.5 2921.7 2950.6 2961.9
128 2842.0 2919.2 2956.3 2961.7
256 3019.2 3019.3 2927.9 2930.1
"""
"""Series 36: sysbench OLTP read-only on flash, transactions/s."""

CHECKSUM_RW = """
 doublewrite atomic fast-checksum no-checksum
1   159.81 164.34 179.68 184.72
2   316.65 343.21 378.61 391.72
4   544.05 635.26 699.60 726.55
8   830.37 1062.8 1176.8 1214.7
16  1054.7 1421.2 1570.7 1610.1
32  1208.3 1615.1 1736.6 1767.4
64  1286.9 1673.2 1793.2 1833.7
128 1266.2 1653.1 1824.5 1875.6
256 1139.4 1505.0 1586.3 1618.3
"""
"""Series 36: sysbench OLTP read-write on flash, transactions/s."""

POINT_SELECT = """
 mariadb-5.5 mysql-5.5 mariadb-10.0 mysql-5.6 mariadb-5.5-tcmalloc mysql-5.5-tcmalloc
1   3535.5 3527.2 8790.2 3460.4 3597.9 9449.2
2   7600.1 7730.0 11306  7694.3 9460.9 12964
4   17387  19889  16265  17894  17555  19517
8   30545  32798  33983  21991  32863  30824
16  35835  37529  27684  23955  47841  38972
32  33057  27132  25391  19017  44377  36720
64  29823  23708  23043  17919  42061  34011
128 28169  23383  22121  17796  41308  33769
256 27836  23180  21573  17469  40118  32877
"""
"""Series 22, performance schema off: sysbench, transactions/s."""

SCHEMA_ON = """
 mariadb-5.5 mysql-5.5 mysql-5.5-tcmalloc mariadb-10.0-tcmalloc
1   3058.3 2979.1 2933.8 2837.1
2   10684  7797.0 8930.8 7263.2
4   16759  19983  15511  16380
8   27920  26128  28282  28889
16  28726  24253  34031  32156
32  28910  24060  34014  31940
64  27977  23625  32663  30560
128 27910  23620  32614  30645
256 27796  23446  32461  30618
"""
"""Series 22, performance schema on."""

SHORT_RANGES = """
 mariadb-10.1 mariadb-10.2 mariadb-10.3 mysql-5.6 mysql-5.7 mysql-8.0
1   7190.6 7957.9 7760.8 5836.8 6985.1 7424.1
2   13620  14281  14381  11351  13059  14700
4   25774  26490  25848  20998  24909  27720
8   43639  50592  49000  37490  40944  50633
16  77846  90735  86146  74688  71132  97882
32  107915 127127 125498 101969 109319 143197
64  109658 119059 115465 98180  110198 142766
128 107390 122276 119862 95615  109387 142814
256 105819 122090 120194 100482 107865 142503
"""
"""Character sets: sysbench read-only, short ranges, queries/s."""

LONG_RANGES = """
 mariadb-10.1 mariadb-10.2 mariadb-10.3 mysql-5.6 mysql-5.7 mysql-8.0
1   2312.3 2426.7 2443.9 935.98 1506.4 2499.3
2   4375.7 4657.1 4438.7 1866.5 2856.2 4857.4
4   7784.9 7997.9 7844.0 3556.3 5420.3 8835.5
8   14696  14911  14858  6093.4 9663.0 15167
16  30473  33446  31575  13126  20442  36110
32  39032  42194  41346  17114  25005  46566
64  38877  40645  39842  16983  25104  47131
128 38532  40684  39669  16882  24949  45783
256 37959  40746  40148  17305  25055  47195
"""
"""Character sets: sysbench read-only, long ranges, queries/s."""

ENGINES_RO = """
 myrocks-10.3.6 myrocks-10.3.6-io innodb innodb-io myrocks myrocks-io
1   3445.7 3451.6 10873  2031.5 4433.4 4440.9
2   12868  9316.8 21398  4730.5 14328  10575
4   23794  17850  41516  10788  26047  19816
8   44347  32234  75416  22606  50016  36862
16  82242  59014  138629 40716  95861  72424
32  102040 76082  198937 60829  131435 92533
64  79041  64886  196765 68911  126429 84925
128 62546  52515  192419 70582  112815 85772
256 48822  44186  193571 69999  109542 84031
"""
"""MariaDB 10.3, MyRocks and InnoDB, in memory and bound by IO: sysbench read-only, queries/s."""

ENGINES_22 = """
 myrocks-10.3.6 myrocks-10.3.6-io innodb innodb-io myrocks
1   3270.1 3218.2 4198.1 1955.3 3282.2
2   7229.1 6646.2 7618.8 3197.5 7342.5
4   12545  11448  12766  4807.9 12848
8   19984  18321  24656  7114.7 20294
16  31120  28607  47528  11517  30953
32  35994  35329  91252  16642  36397
64  36533  34323  139380 17188  35807
128 23818  33034  165184 19060  34256
256 16090  30442  172793 19931  29840
"""
"""The same servers, 22 % writes."""

ENGINES_80 = """
 myrocks-10.3.6 myrocks-10.3.6-io innodb innodb-io myrocks
1   7834.4 5986.3 7686.5 2315.5 7921.3
2   13698  11222  14642  3819.5 13807
4   25441  19278  27985  6211.1 25382
8   47720  38132  52342  8498.8 48020
16  82801  68998  101519 9404.0 82087
32  107000 93680  165881 8896.5 100639
64  114605 104607 202319 8744.3 129587
128 69400  105959 209557 8398.7 127984
256 40424  99868  188437 6439.5 83548
"""
"""The same servers, 80 % writes."""

ENGINES_100 = """
 myrocks-10.3.6 innodb innodb-io
1   5040.0 4128.8 1818.4
2   10381  6929.5 2901.9
4   14932  12507  4600.4
8   22816  22885  6504.4
16  33723  45460  7547.6
32  41775  80926  7618.5
64  42665  135464 8069.4
128 43373  173551 7586.5
256 34419  154902 5920.4
"""
"""The same servers, nothing but writes."""

SEQUENCES = """
 emulated emulated-myisam native default auto-increment function
1   2697.6 2660.7 3774.9 3789.9 3751.2 556.18
2   4428.9 4953.6 5642.2 5662.3 5553.6 630.99
4   4588.2 7964.8 10027  10080  9997.1 1194.7
8   4466.6 11794  19182  19216  19055  2172.8
16  4236.3 12974  35155  35128  33879  3764.7
32  4201.9 13558  60200  58836  55756  6221.2
64  4174.9 13349  69303  67914  62509  7449.1
128 3883.9 13541  65352  62608  59954  3536.5
"""
"""MariaDB 10.3, ways to number rows: inserts/s."""

PROXY_RO = """
 direct proxy-4 proxy-8 cache-4 cache-8 cache-16
4    14437  12243  12660  31852  31534  27646
8    34102  27539  25996  67569  62991  63749
16   68202  58390  59555  117638 117300 128430
32   130731 109870 118302 130596 184401 212458
64   202860 170797 187303 145011 204652 297998
128  237624 203651 234213 147823 211688 311212
256  238617 225233 242832 147699 212731 318709
512  227196 222042 233878 147412 220116 319278
1024 215613 207742 217211 134711 217564 318059
"""
"""MariaDB behind MaxScale 2.2 with 4–16 threads: sysbench OLTP read-only, queries/s."""

PROXY_RW = """
 direct proxy-4 proxy-8 cache-4 cache-16
4    14088  11055  10956  28180  24704
8    29141  22474  23077  55307  46995
16   55580  45532  45009  97275  100667
32   114307 92408  99869  129667 177551
64   176822 131505 159806 139331 288253
128  215783 162289 194609 142862 310330
256  221558 185624 216360 143446 316273
512  212113 182408 208931 140302 311119
1024 201409 172685 194998 132161 308294
"""
"""The same, OLTP read-write."""

MYISAM = """
 mariadb-5.5.20 mariadb-10.1.8 mysql-5.7.9
1   23201  20270  21355
8   131303 132791 136372
16  154543 160302 154546
32  112564 123306 115822
64  109485 122631 115279
128 106746 124111 117137
256 106607 129170 123405
"""
"""Regression tests: 1000 point selects a transaction, MyISAM, queries/s."""

# M. Callaghan, tables of sysbench results, 2016–2017

FACEBOOK_RO = """
 myrocks-august myrocks-september innodb-5.6
1   5078   5041   5368
2   10938  10838  11226
4   23257  23165  23263
8   52420  51401  53355
16  107187 106353 107630
24  148588 147289 147906
32  173040 171515 170842
40  194901 193842 194908
48  212838 210933 212603
64  215344 214551 207564
80  216134 213517 192938
96  217699 215154 182113
128 217674 215739 151725
"""
"""sysbench 0.5 OLTP read-only, 24 cores with 48 threads, queries/s (2016)."""

FACEBOOK_RW = """
 myrocks-august myrocks-september innodb-5.6 myrocks-november
1   5163   5143   5606   4587
2   10329  10268  11739  10262
4   20230  20141  25207  20985
8   43145  42767  55188  53920
16  91236  91050  106929 98612
24  124595 125118 143856 128791
32  144620 141703 168702 152316
40  156740 156543 187058 165875
48  156073 157386 191080 166799
64  158747 156080 180099 172084
80  159300 157728 173400 176416
96  158835 157465 168259 176557
128 159244 156817 152711 177173
"""
"""The same machine, OLTP read-write (2016)."""

UPDATE_INDEX = """
 small small-schema small-committed large large-schema
1   4366  4391  4491  3568  3613
2   9229  9172  9214  7417  7298
4   17684 17117 17793 12863 12626
8   30718 29402 30375 18319 18223
16  41584 40450 41513 24114 23669
24  44935 43732 44471 26248 25977
32  46025 44435 45866 31430 30725
40  45967 45176 46298 35162 34729
48  46349 45123 46133 34460 34025
64  46344 45336 45911 34110 33763
80  45946 45108 45906 33559 33356
96  45698 44737 45480 33110 33011
128 45693 44728 45353 32064 32038
"""
"""InnoDB of MySQL 5.6.26, update of an indexed column, 1 and 10 million rows, queries/s (2016)."""

# M. Yabandeh, MyRocks in-memory sysbench results, 2018

UPDATE_INLIST = """
 basic concurrent
1  1571  1576
2  2833  2833
4  5461  5465
8  10271 10298
16 17346 17336
24 19235 19319
32 19434 19405
40 19173 19116
48 18548 18557
64 17467 17525
"""
"""sysbench update-inlist, 56 hardware threads, queries/s."""

SERIES_23 = """
 mariadb-5.5 mysql-5.5 mariadb-10.0 mysql-5.6 maria-5.5-tc my-5.5-tc maria-10.0-tc my-5.6-tc
1 3530.8 3631.7 3303.3 3471.8 3495.6 3523.8 3382.8 3098.0
2 7951.8 7988.0 7649.5 7693.4 7592.1 7931.4 9778.7 7642.4
4 15301 16236 15031 15085 15900 16633 17016 14360
8 31842 35884 27186 23000 27223 32891 31813 22702
16 38039 33208 35016 23637 44188 33008 31603 25636
32 29318 23849 22214 19243 37519 30666 29469 18867
64 26525 22535 19390 18971 36194 29460 27539 18172
128 26117 21861 18582 18109 35834 28457 26648 17776
256 25620 21610 16781 17413 34967 28155 26530 17496
"""
"""A. Schwenke, as series 22, another configuration."""

SERIES_24 = """
 mariadb-5.5 mysql-5.5 mariadb-10.0 mysql-5.6 maria-5.5-tc my-5.5-tc maria-10.0-tc my-5.6-tc
1 9043.5 3618.1 3533.7 7612.8 3718.3 3681.9 3557.7 3224.7
2 10734 13262 8257.0 8539.8 13380 9128.1 9179.4 9401.8
4 18904 21192 17477 13431 17798 17574 21109 16189
8 33362 33322 31026 22421 35774 35307 32848 25733
16 36583 44848 33197 23673 49728 45037 36589 23644
32 32867 26525 25798 19720 45353 36874 35076 19532
64 28705 25017 22675 17964 42288 33908 32384 18483
128 27899 24067 21752 17613 41793 33777 31356 17573
256 27750 23747 22407 17336 40395 32792 30787 17267
"""
"""A. Schwenke, as series 22, a third configuration."""

ENGINES_50 = """
 myrocks-10.3.6 myrocks-10.3.6-io innodb innodb-io myrocks myrocks-io
1 6055.5 5063.2 5210.2 2035.6 6012.6 5172.7
2 10572 8710.3 9200.8 3305.7 10628 8624.8
4 17948 15191 16323 5233.5 18421 15685
8 30638 26766 31371 7809.7 30336 27316
16 47724 42444 60176 10684 47287 41925
32 60575 58638 109333 12880 63794 58899
64 56768 58932 164280 12327 65252 59766
128 45749 55581 185920 11868 61152 57606
256 23105 48860 195139 10901 53129 51264
"""
"""A. Schwenke, MariaDB 10.3, 50 % writes."""

PROXY_MORE = """
 2.2-16 assume-4 assume-8 assume-16 2.1-4 2.1-cache-4 2.1-cache-8
4 11666 38825 35625 38469 11825 27958 28882
8 25251 92433 89871 72346 27079 75321 62472
16 58551 212883 194250 187299 59520 120212 143717
32 118831 298468 361435 361516 115117 143394 220178
64 190230 316791 523770 547133 175150 149473 233873
128 234928 304828 525487 628359 205174 151763 258623
256 243555 298884 519852 659437 223149 149721 250612
512 233938 287330 520153 648851 223754 150258 247950
1024 217054 263445 483736 630259 201457 143149 247893
"""
"""A. Schwenke, more versions and caches of MaxScale."""

RO_5X_MORE = """
 mariadb-10.0-tcmalloc mysql-5.5-tcmalloc mariadb-5.5
1 694.39 687.59 690.82
2 1414.2 1468.3 1415.6
4 2680.5 2696.4 2686.7
8 5025.6 4999.4 4992.0
16 7945.6 8039.1 7717.8
32 9594.6 9739.8 9642.0
64 8950.3 10204 9276.2
128 9308.8 10257 9708.7
256 9038.9 9290.5 9477.0
512 8216.3 7690.5 8106.9
1024 7030.6 5216.4 3128.0
"""
"""A. Schwenke, the rest of series 25."""

TIDB = """
 point-2.1 point-3.0 non-index-2.1 non-index-3.0 index-2.1 index-3.0 read-write-2.1 read-write-3.0
150 137171 158908 20755 24710 13167 15203 3182.8 3704.0
300 221862 279336 27598 30348 14670 18874 3828.9 4890.4
600 266727 422279 32072 38686 15509 23882 4304.6 5644.5
900 282689 484305 32503 45567 16290 25603 4527.3 6095.2
1200 290615 502705 32361 49983 16060 25341 4727.0 6168.3
1500 296218 509099 32393 55717 16220 26295 4869.4 6429.5
"""
"""PingCAP, TiDB Sysbench performance test report, v3.0 against v2.1 (2019)."""

TIDB_2018 = """
 point-2.1 point-2.0 non-index-2.1 non-index-2.0 index-2.1 index-2.0
64   111481.09 75285.87  18946.09 16316.85 9934.49  9754.68
128  145102.62 92141.79  22022.82 20944.6  10505.95 10603.31
256  161311.9  107464.93 24679.68 24017.42 11007.7  11011.71
512  184991.19 121350.61 25107.1  25994.33 11198.81 11162.63
1024 230282.74 150036.31 27144.92 27917.52 11591.89 12067.63
"""
"""PingCAP, TiDB Sysbench performance test report, v2.1 against v2.0, other servers (2018)."""

# V. Tkachenko, Percona-Lab-results/201701-meltdown-OLTP-ro, 2018

KERNEL_FIX = """
 without with
1   881.87  868.09
2   1733.15 1717.96
4   3344.87 3374.62
8   6275.43 6091.33
16  10208.03 9766.95
64  12531.92 12060.53
128 11849.27 11647.64
256 12305.5 11843.68
"""
"""sysbench OLTP read-only, 48 hardware threads, a kernel without and with a fix, transactions/s."""

TABLES = {
    "read-only 5.x": RO_5X,
    "read-only, table cache": RO_TOC,
    "flash read-only": CHECKSUM_RO,
    "flash read-write": CHECKSUM_RW,
    "point select": POINT_SELECT,
    "performance schema": SCHEMA_ON,
    "short ranges": SHORT_RANGES,
    "long ranges": LONG_RANGES,
    "engines, read-only": ENGINES_RO,
    "engines, 22 % writes": ENGINES_22,
    "engines, 80 % writes": ENGINES_80,
    "engines, writes": ENGINES_100,
    "sequences": SEQUENCES,
    "proxy, read-only": PROXY_RO,
    "proxy, read-write": PROXY_RW,
    "MyISAM": MYISAM,
    "48 threads, read-only": FACEBOOK_RO,
    "48 threads, read-write": FACEBOOK_RW,
    "update index": UPDATE_INDEX,
    "update in list": UPDATE_INLIST,
    "point select, series 23": SERIES_23,
    "point select, series 24": SERIES_24,
    "engines, 50 % writes": ENGINES_50,
    "proxy, more": PROXY_MORE,
    "read-only 5.x, more": RO_5X_MORE,
    "TiDB": TIDB,
    "TiDB, 2018": TIDB_2018,
    "kernel fix": KERNEL_FIX,
    **sysbench_tables.TABLES,
}

CURVES = [
    pair("Cisco UCS", CISCO),
    pair("SPEC SDM91", SPECSDM91),
    pair("ray tracer", RAYTRACER),
    pair("sysbench read-write", SYSBENCH_RW),
    *(curve for family, table in TABLES.items() for curve in parse_table(family, table)),
]

STUDIES = {
    "Cisco UCS": "Tkachenko 2010",
    "SPEC SDM91": "SPEC 1991",
    "ray tracer": "ray tracer",
    "sysbench read-write": "Percona 2016",
    "kernel fix": "Tkachenko 2018",
    "flash read-only": "Schwenke, flash",
    "flash read-write": "Schwenke, flash",
    "MyISAM": "Schwenke, MyISAM",
    "48 threads, read-only": "Callaghan 2016",
    "48 threads, read-write": "Callaghan 2016",
    "update index": "Callaghan 2016",
    "update in list": "Yabandeh 2018",
    "TiDB": "PingCAP 2019",
    "TiDB, 2018": "PingCAP 2018",
    **dict.fromkeys(
        (
            "read-only 5.x",
            "read-only 5.x, more",
            "read-only, table cache",
            "point select",
            "point select, series 23",
            "point select, series 24",
            "performance schema",
        ),
        "Schwenke, series 22 to 26",
    ),
    **dict.fromkeys(
        (
            "short ranges",
            "long ranges",
            "engines, read-only",
            "engines, 22 % writes",
            "engines, 50 % writes",
            "engines, 80 % writes",
            "engines, writes",
            "sequences",
        ),
        "Schwenke, MariaDB 10.3",
    ),
    **dict.fromkeys(("proxy, read-only", "proxy, read-write", "proxy, more"), "Schwenke, MaxScale"),
    **sysbench_tables.STUDIES,
}
"""Who measured a family's curves, and on which server."""

AUTHORS = {
    **dict.fromkeys(("Tkachenko 2010", "Percona 2016", "Tkachenko 2018"), "Percona"),
    **{study: "Percona" for study in STUDIES.values() if study.startswith("Percona")},
    **{study: "Schwenke" for study in STUDIES.values() if study.startswith("Schwenke")},
    **dict.fromkeys(("Callaghan 2016", "Yabandeh 2018"), "Facebook"),
    **dict.fromkeys(("PingCAP 2019", "PingCAP 2018"), "PingCAP"),
}
"""Whose studies may share a server: these are held out together."""
