"""Published tables of sysbench runs, by other authors and servers than `curves` has.

They were taken over as printed, when the estimator was finished, as a test that it had not seen.
Each table is one server; of runs that repeat each other one is kept, and of curves only those whose
best level is not the last. Throughput is transactions/s where not said otherwise.
"""

# plantegg, "Sysbench" comparison of servers at home and in three clouds, 2025: MySQL, queries/s;
# trx1: the log is synced at every commit

PLANTEGG_POINT_SELECT = """
 idc idc.trx1 huawei aliyun aliyun.trx1 aws.gp3 aws.io1
1   24725  15153  6019   15750  15625  2316   1835
8   159877 129671 45989  109914 113189 60437  56871
16  252082 231142 86219  196497 195783 162670 170296
32  304631 296421 155542 301160 302140 232535 251905
64  299555 297696 196915 328098 326549 228321 249718
128 287407 285109 190484 309373 310429 217381 236283
"""

PLANTEGG_WRITE_ONLY = """
 huawei aliyun.trx1 aws.io1
1   4930  6909   1786
8   30173 38470  19047
16  49163 57604  39006
32  70800 88163  68442
64  85898 112561 94216
128 64958 105554 66370
"""

PLANTEGG_EXAMPLE = """
 point-select read-only
1   33572  12542
8   186824 55531
16  269096 72489
32  318015 76153
64  307471 75745
128 289999 74513
"""
"""plantegg/sysbench_report (GitHub), the example: Xeon Silver 4510, 48 hardware threads."""

# Percona-Lab-results/2021_10_arm_cpu_comparison_m6 (GitHub), 2021: OLTP read-only, MySQL 8.0 and
# client on one virtual machine of EC2 with 8 and 2 hardware threads; queries/s

EC2_M5A_8 = """
 m5a.2xlarge
1   6733.83
2   12916.96
4   22402.29
8   57534.83
16  58519.47
32  56905.02
64  52144.38
128 49325.75
"""

EC2_M6I_8 = """
 december-13 december-14
1   16937.96  16831.92
2   21947.47  32724.45
4   45098.11  54231.36
8   70250.13  95496.14
16  97825.59  115554.16
32  109447.93 113902.10
64  113137.31 114036.79
128 111077.21 110116.90
"""

EC2_M6A_2 = """
 december-1 december-1-late
1   11111.72 11238.41
2   22177.30 24204.18
4   24121.09 24433.60
8   24120.62 24153.33
16  23890.68 24027.30
32  24188.04 24369.20
64  23870.90 23936.11
128 22773.15 22942.09
"""

# Percona-Lab-results/2026-interactive-metrics (GitHub), 2026: 40 cores with 80 hardware threads,
# SATA disk; buffer pools of 2, 12 and 32 GB

PERCONA_2026_READ_ONLY_2 = """
 mariadb-10.11 mysql-5.7 mysql-8.0 mysql-8.4
1   187.95  159.12  157.51  166.07
4   519.68  490.07  519.64  504.30
16  1390.21 1357.93 1400.56 1372.44
32  1668.20 1674.78 1685.51 1679.57
64  1690.95 1717.36 1711.61 1693.59
128 1695.97 1728.12 1724.96 1716.77
256 1703.93 1717.72 1716.34 1546.88
512 1691.04 1721.68 580.06  456.99
"""

PERCONA_2026_READ_ONLY_12 = """
 mariadb-10.11 mysql-5.7 mysql-8.0
1   305.49  226.39  237.38
4   980.02  769.85  873.90
16  2710.70 2094.78 2570.42
32  3466.40 2619.04 3415.92
64  3516.96 2635.09 3478.45
128 3537.72 2583.55 3512.33
256 3511.43 2517.95 3497.00
512 3536.78 2460.06 3510.71
"""

PERCONA_2026_READ_ONLY_32 = """
 mariadb-10.11 mariadb-11.4 mysql-5.7 mysql-8.0 mysql-8.4 percona-5.7
1   962.23   745.95   642.28   720.29   740.05   643.93
4   3666.79  2812.06  2645.10  2945.22  2830.41  2626.68
16  12219.98 9494.76  8854.86  9658.83  9522.41  8707.12
32  20210.78 15121.50 13683.54 15255.47 15120.91 14363.46
64  25819.59 19222.60 13112.52 19140.55 19277.86 18587.69
128 32391.98 23357.30 11810.20 22400.46 23414.39 22545.55
256 31111.18 22532.31 6975.54  21471.04 22399.83 21656.39
512 29541.92 21580.08 3889.41  20585.62 20988.90 20838.06
"""

PERCONA_2026_READ_WRITE_2 = """
 mariadb-11.4 mysql-8.0 mysql-8.4
1   110.47 54.69  69.14
4   250.12 182.62 189.94
16  376.26 311.13 345.99
32  492.06 418.79 463.12
64  614.34 532.73 530.93
128 660.56 575.65 501.81
256 535.20 639.10 521.44
512 248.19 523.62 495.90
"""

PERCONA_2026_READ_WRITE_12 = """
 mariadb-11.4 mysql-5.7 mysql-8.4
1   165.53  143.76 141.70
4   378.66  352.30 315.16
16  631.65  591.91 586.61
32  806.00  750.22 779.64
64  1061.61 783.11 900.40
128 1211.65 784.24 982.97
256 1027.13 798.72 972.06
512 597.70  783.85 972.95
"""

PERCONA_2026_READ_WRITE_32 = """
 mariadb-10.11 mariadb-11.4 mysql-5.7 mysql-8.0
1   516.68   412.26   368.25  383.57
4   1573.92  1418.43  1312.12 1190.66
16  3748.92  3363.90  3539.80 3273.63
32  5843.66  5348.49  5519.14 5639.74
64  8297.68  7868.80  7338.09 8587.41
128 10694.24 10232.42 7281.35 9509.42
256 5972.67  5330.14  5553.23 10065.97
512 3920.94  3318.08  3143.64 9521.61
"""

# Percona-Lab-results/ps-mysql-versions-perf (GitHub), 2026: Percona Server 8.4.10, OLTP read-write,
# NVMe; by rows per table (millions) and buffer pool (GB), the first run

PERCONA_2026_NVME = """
 10M-4G 10M-24G 10M-64G 20M-8G 20M-128G 5M-2G 5M-12G 5M-32G
1   108.13  190.77  360.98   99.67   354.43   108.08  192.31  360.97
4   485.87  734.05  1391.35  488.04  1373.86  492.93  737.7   1406.73
16  1476.54 2578.62 5011.61  1478.23 4909.74  1474.45 2496.18 5071.91
32  2130.83 4351.95 8796.91  2104.25 8511.67  2087.47 4040.95 8993.24
64  2521.52 6569.09 12948.64 2478.13 12771.96 2427.17 5873.17 13478.02
128 1259.54 8461.6  15908.38 1244.72 15675.48 1236.48 6320.78 16453.5
256 731.34  8294.88 16504.92 739.51  16343.31 726.87  3662.4  16747.77
512 565.52  7010.58 15600.33 589.62  15337.59 586.98  2853.44 15732.12
"""

# A. Schwenke, mariadb-benchmarks (GitHub), regression tests, 2018: 1000 point selects a
# transaction, InnoDB, 20 tables; queries/s

REGRESSION_INNODB = """
 maria-5.5.28 maria-5.5.50 maria-10.0.20 maria-10.1.20 maria-10.2.10 my-5.6.30 my-5.7.17 my-8.0.3
1   25009  24355  22860  23689  22173  25543  20319  17341
8   162726 170496 157423 168293 149614 175819 147478 124562
16  290294 286055 262578 278057 259466 279238 241836 214819
32  340756 365618 378773 410769 393718 358972 348032 315456
64  330969 331107 387546 413763 393296 356315 348632 317431
128 270025 301100 391042 419403 398234 332119 350675 318689
256 267225 305612 383525 409564 390555 319856 343683 313874
"""

# M. Callaghan, facebook/mysql-5.6 (GitHub), issue 356, 2016: OLTP read-only with ranges of 1000
# rows, 24 cores with 48 hardware threads; queries/s

LONG_RANGES_2016 = """
 innodb innodb.fb innodb.5710 rocksdb.old
1   1899  1971  2486  779
2   3830  3990  5068  1545
4   7705  8087  10222 3105
8   15750 16801 21165 6202
16  31711 34110 42235 12405
24  44379 48034 58733 17377
32  50768 55710 65402 19248
40  56297 61949 70749 20702
48  60893 67497 75154 21913
64  60724 66826 74975 21940
80  60676 66368 73579 21872
96  60338 65784 73313 21877
128 60134 65493 72951 21815
"""

FAMILIES = {
    "plantegg 2025": {
        "clouds, point select": PLANTEGG_POINT_SELECT,
        "clouds, write-only": PLANTEGG_WRITE_ONLY,
        "48 threads, Silver 4510": PLANTEGG_EXAMPLE,
    },
    "Percona 2021, EC2": {
        "8 threads, m5a": EC2_M5A_8,
        "8 threads, m6i": EC2_M6I_8,
        "2 threads, m6a": EC2_M6A_2,
    },
    "Percona 2026, SATA": {
        "80 threads, read-only, 2 GB": PERCONA_2026_READ_ONLY_2,
        "80 threads, read-only, 12 GB": PERCONA_2026_READ_ONLY_12,
        "80 threads, read-only, 32 GB": PERCONA_2026_READ_ONLY_32,
        "80 threads, read-write, 2 GB": PERCONA_2026_READ_WRITE_2,
        "80 threads, read-write, 12 GB": PERCONA_2026_READ_WRITE_12,
        "80 threads, read-write, 32 GB": PERCONA_2026_READ_WRITE_32,
    },
    "Percona 2026, NVMe": {"NVMe, read-write": PERCONA_2026_NVME},
    "Schwenke, regression": {"1000 point selects, InnoDB": REGRESSION_INNODB},
    "Callaghan 2016": {"48 threads, long ranges": LONG_RANGES_2016},
}
"""The tables of each study."""
TABLES = {name: table for tables in FAMILIES.values() for name, table in tables.items()}
STUDIES = {name: study for study, tables in FAMILIES.items() for name in tables}
