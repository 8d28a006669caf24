"""The fields of a query string, of which an unknown one is refused."""

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs


def query_fields(query: str, names: Sequence[str]) -> dict[str, str]:
    """Return the fields, each at most once; raises ValueError, which states the remedy."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=len(names))
    except ValueError:
        raise ValueError(f"more than {len(names)} fields; allowed are {', '.join(names)}") from None
    refuse_unknown(found, names)
    for name, values in found.items():
        if len(values) > 1:
            raise ValueError(f"{name}: given twice")
    return {name: values[0] for name, values in found.items()}


def refuse_unknown(given: Iterable[str], names: Sequence[str]) -> None:
    """Raise ValueError with the allowed names if a field is not one of them."""
    for name in given:
        if name not in names:
            allowed = "is" if len(names) == 1 else "are"
            raise ValueError(f"{name[:30]}: unknown field; allowed {allowed} {', '.join(names)}")
