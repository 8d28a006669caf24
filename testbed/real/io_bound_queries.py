"""A server whose table is larger than its memory, and a statement that reads it from the disk.

It reads past the page cache, as in production.
"""

OPTIONS = ("--innodb-flush-method=O_DIRECT", "--innodb-buffer-pool-size=8M")

DIGITS = " UNION ALL SELECT ".join(["SELECT 0 AS n", *map(str, range(1, 10))])

TABLE = (
    "CREATE DATABASE large",
    "CREATE TABLE large.t (id INT PRIMARY KEY, pad VARCHAR(7000)) CHARSET latin1",
    f"CREATE TABLE large.digits {DIGITS}",
    "INSERT INTO large.t SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n, REPEAT('x', 7000)"
    " FROM large.digits a, large.digits b, large.digits c, large.digits d",
)

ANYWHERE = "SELECT CAST(FLOOR(10000 * RAND()) AS SIGNED)"

STATEMENT = (  # four rows of ten thousand, of which few are in memory
    f"SELECT SUM(LENGTH(pad)) FROM large.t JOIN ({ANYWHERE} AS id UNION ALL {ANYWHERE}"
    f" UNION ALL {ANYWHERE} UNION ALL {ANYWHERE}) AS pick USING (id)"
)
