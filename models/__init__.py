"""Purely mathematical models: arrays in, frozen results out; no clock, file or socket."""
