"""The number of statements at a resource, queue included, from its utilisation."""


def statements_at_resource(busy: float, population: float) -> float:
    """Compute the mean number of statements at a resource of utilisation `busy`.

    Schweitzer's approximation of mean value analysis for a closed network of `population`
    statements: one that arrives finds the mean of the other n−1 there, Q·(n−1)/n, so
    Q = U / (1 − U·(n−1)/n). A single statement finds no queue (Q = U); a resource that is full has
    all of them (P. Schweitzer, "Approximate analysis of multiclass closed networks of
    queues", 1979; E. Lazowska et al., Quantitative System Performance, 1984, chapter 6).
    """
    n, used = max(population, 1.0), min(max(busy, 0.0), 1.0)
    return used / (1.0 - used * (n - 1.0) / n)
