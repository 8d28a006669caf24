"""The shop database of the demo: its tables, and the query classes on them.

The queries hinder one another as in a real shop, so the Universal Scalability Law shows. Sales
wait for the lock on the row of one popular item: contention. Conversions read exchange rates that
change meanwhile, in the version of their own start; the more of them run at once, the longer each
takes and the more row versions it must go back through: coherency.
"""

from collections.abc import Sequence
from dataclasses import dataclass

DATABASE = "shop"
ORDERS = 40_000

TABLES = (
    f"CREATE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    "CREATE TABLE digit (d INT PRIMARY KEY)",
    "INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    "CREATE TABLE exchange (currency INT PRIMARY KEY, rate DOUBLE NOT NULL)",
    "INSERT INTO exchange SELECT d, 1 + d / 10 FROM digit WHERE d < 4",
    "CREATE TABLE stock (item INT PRIMARY KEY, sold BIGINT NOT NULL)",
    "INSERT INTO stock SELECT d, 0 FROM digit",
    """CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, currency INT NOT NULL,
                            amount INT NOT NULL, city CHAR(20) NOT NULL)""",
    """INSERT INTO orders
        SELECT n, CRC32(n) % 5000, CRC32(n + 7) % 4, CRC32(n + 13) % 1000,
               CONCAT('city ', CRC32(n + 29) % 3000)
          FROM (SELECT v.d + 10 * w.d + 100 * x.d + 1000 * y.d + 10000 * z.d AS n
                  FROM digit v, digit w, digit x, digit y, digit z) AS numbers
         WHERE n < 40000""",
    """CREATE PROCEDURE sell(IN bought INT, IN first INT)
        BEGIN
            START TRANSACTION;
            UPDATE stock SET sold = sold + 1 WHERE item = bought;
            SELECT SUM(amount) INTO @total FROM orders
             WHERE id BETWEEN first AND first + 2000;
            COMMIT;
        END""",
)
"""Statements, to be executed in this order."""


@dataclass(frozen=True)
class QueryClass:
    """One kind of query; every {order} in `sql` stands for an order's number.

    That number is less than `order_limit`. `repetitions` is how many of these queries there are in
    each round of a client.
    """

    name: str
    sql: str
    order_limit: int
    repetitions: int

    def query(self, order: int) -> str:
        """Return the SQL text for one order."""
        return self.sql.format(order=order)


CLASSES: Sequence[QueryClass] = (
    QueryClass(
        "look an order up",
        "SELECT customer, amount FROM orders WHERE id = {order}",
        order_limit=ORDERS,
        repetitions=3,
    ),
    QueryClass(
        "convert a range of orders",
        """SELECT STRAIGHT_JOIN SUM(o.amount * e.rate)
              FROM orders o JOIN exchange e FORCE INDEX (PRIMARY) ON e.currency = o.currency
             WHERE o.id BETWEEN {order} AND {order} + 2000""",
        order_limit=ORDERS - 2_000,
        repetitions=2,
    ),
    QueryClass(
        "change an exchange rate",
        "UPDATE exchange SET rate = 1 + {order} % 97 / 100 WHERE currency = {order} % 4",
        order_limit=ORDERS,
        repetitions=3,
    ),
    QueryClass(
        "sell the item that everybody buys",
        "CALL sell(1, {order})",
        order_limit=ORDERS - 2_000,
        repetitions=1,
    ),
    QueryClass(
        "rank cities",
        """SELECT city, COUNT(*), SUM(amount) AS total FROM orders
             WHERE id BETWEEN {order} AND {order} + 5000
             GROUP BY city ORDER BY total DESC LIMIT 10""",
        order_limit=ORDERS - 5_000,
        repetitions=1,
    ),
)
