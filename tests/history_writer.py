"""A process that writes a history until it is killed, and prints what is committed.

`python history_writer.py FILE FIRST`: from the interval FIRST on, as fast as it can; after each
commit the number of the last interval in it goes to standard output.
"""

import sys
import time
from itertools import count
from pathlib import Path

from history_rows import SETTINGS, batch

from agent.history.store import Store


def main(path: Path, first: int) -> None:
    """Write without end."""
    store = Store(path, SETTINGS)
    for number in count(first):
        store.put(batch(number))
        store.tick(time.monotonic())
        assert store.state.success, store.state
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
