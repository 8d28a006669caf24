"""The settings of query classes. Durations in seconds."""

from typing import Annotated

from msgspec import Meta

from agent.config.base_model import Parsed, Section
from agent.config.durations import duration_in_seconds, within_bounds


class ClassSettings(Section, frozen=True):
    """The section `classes`; the collector `digests` switches all of it on or off."""

    top: Annotated[int, Meta(ge=1, le=200)] = 10
    digest_text: bool = False
    interval: Annotated[float, Parsed(duration_in_seconds), within_bounds(5, 600)] = 60.0
    window: Annotated[float, Parsed(duration_in_seconds), within_bounds(60, 86400)] = 3600.0
