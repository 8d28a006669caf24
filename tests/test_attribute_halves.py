"""The command `attribute` on the first half of a recording predicts the second."""

import gzip
from csv import DictReader, DictWriter
from pathlib import Path

import pytest
from attribute_command import as_json

from testbed.data_file_paths import data


def half(source: Path, to: Path, *, second: bool, texts: bool) -> Path:
    """Write one half of a recording, by its clock, with or without the statements' texts."""
    with gzip.open(source, "rt", newline="") as file:
        rows = list(DictReader(file))
    times = [float(row["t_s"]) for row in rows]
    middle = (min(times) + max(times)) / 2
    columns = [name for name in rows[0] if texts or name != "digest_text"]
    with to.open("w", newline="") as file:
        writer = DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(r for r, t in zip(rows, times, strict=True) if (t > middle) is second)
    return to


@pytest.mark.parametrize("texts", [True, False], ids=["texts", "no texts"])
@pytest.mark.parametrize(("name", "most"), [("A_moderate", 0.06), ("D_light", 0.05)])
def test_the_second_half_is_predicted_from_the_first(
    name: str, most: float, *, texts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The total of each second, by `auto`; the actual use correlates with the prediction."""
    source, host = (data(f"mysql97/{name}{end}.csv.gz") for end in ("", "_host"))
    first, second = (
        half(source, tmp_path / f"{number}.csv", second=bool(number), texts=texts)
        for number in (0, 1)
    )
    found = as_json(capsys, first, "--host", host, "--predict", second)
    assert found["method"] == ("work-time" if texts else "learned")
    assert found["prediction"]["mape"] <= most
    assert found["prediction"]["r_squared"] > 0.5
    assert found["prediction"]["slope"] == pytest.approx(1.0, abs=0.25)
