"""A count with its noun in the singular or the plural."""


def counted(count: int, noun: str) -> str:
    """Return `1 interval` or `1,234 intervals`, of a noun that takes an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
