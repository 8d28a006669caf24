"""The fields of a query string, each at most once."""

from collections.abc import Sequence
from urllib.parse import parse_qs


def query_fields(query: str, names: Sequence[str]) -> dict[str, str]:
    """Return the fields by name; raises ValueError, which states the remedy."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=len(names))
    except ValueError:
        raise ValueError(f"more than {len(names)} fields; allowed are {', '.join(names)}") from None
    for name, values in found.items():
        if name not in names:
            raise ValueError(f"{name[:30]}: unknown field; allowed are {', '.join(names)}")
        if len(values) > 1:
            raise ValueError(f"{name}: given twice")
    return {name: values[0] for name, values in found.items()}
