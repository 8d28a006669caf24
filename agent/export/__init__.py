"""Output: snapshots, fits and profiles as metrics, the page, JSON, plots and text."""
