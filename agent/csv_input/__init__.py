"""Tables in CSV files, every mistake reported with its line."""
