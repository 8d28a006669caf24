"""Models are pure mathematics: arrays in, frozen results out; no clock, file or socket."""
