"""Answers that are shared for a moment."""

from agent.web.shared_answers import LONGEST_PAUSE, REMEMBERED, SharedAnswers


class Maker:
    """Makes another answer each time, which takes so long by its own clock."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 100.0
        self.made = 0
        self.answers = SharedAnswers(lambda: self.now)

    def get(self, name: str = "a") -> bytes:
        """One answer."""

        def make() -> bytes:
            self.now += self.takes
            self.made += 1
            return b"%d" % self.made

        return self.answers.get(name, make)


def test_a_flood_takes_a_quarter_of_the_time() -> None:
    """Within three times as long as it took an answer is given again, and then made again."""
    maker = Maker(takes=0.1)
    assert maker.get() == b"1"
    maker.now += 0.29
    assert maker.get() == b"1"
    maker.now += 0.02
    assert maker.get() == b"2"


def test_an_answer_that_takes_long_is_still_of_the_moment() -> None:
    """Half a second is the most, so a scrape every second has numbers of its own."""
    maker = Maker(takes=2.0)
    assert maker.get() == b"1"
    maker.now += LONGEST_PAUSE
    assert maker.get() == b"2"


def test_few_answers_are_remembered() -> None:
    """Each name has its own answer; beyond so many the oldest is made again."""
    maker = Maker(takes=0.1)
    names = [str(number) for number in range(REMEMBERED + 1)]
    first = [maker.get(name) for name in names]
    assert len(set(first)) == len(names)
    maker.now -= 0.1 * len(names)
    assert maker.get(names[-1]) == first[-1]
    assert maker.get(names[0]) not in first
