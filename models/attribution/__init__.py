"""An aggregate, such as CPU seconds, divided over query classes."""
