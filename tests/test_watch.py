"""Watching one target: what it publishes when not all is as it should be."""

import pytest
from made_up import RISING, intervals

from agent.config.settings import Config
from agent.snapshot import Health
from agent.watch import Watch


def test_another_server_behind_the_same_address_begins_anew() -> None:
    """Nothing that is known of the first is said of the second, also without a history."""
    config = Config.model_validate({"targets": [{"name": "db", "user": "u"}]})
    watch = Watch(config, config.targets[0])
    watch._history.restore(intervals(RISING[:8]))
    for server, kept in (("first", 8), ("first", 8), ("second", 0)):
        watch._answering = server
        watch.fit_tick(50.0)
        assert len(watch._history.window(50.0)) == kept
    assert watch.snapshot.fitted.capacity is None
    assert watch.snapshot.load is None


def test_a_defect_in_the_models_hides_no_server_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What reading the server says is published first; the lane counts the defect."""
    config = Config.model_validate({"targets": [{"name": "db", "user": "u"}]})
    watch = Watch(config, config.targets[0])
    monkeypatch.setattr("agent.watch.assess", lambda *_: 1 / 0)
    watch._health = Health(up=False, server="MySQL")
    with pytest.raises(ZeroDivisionError):
        watch.fit_tick(50.0)
    assert watch.snapshot.health.up is False
