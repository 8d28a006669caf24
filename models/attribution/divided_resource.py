"""What is known of a resource before it is divided over the classes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DividedResource:
    """A resource of the whole server."""

    name: str
    cpu: bool = False
    """CPU seconds: no class uses more than its time."""
    part: bool = False
    """Of the CPU: what was used in the kernel, or outside of it."""
