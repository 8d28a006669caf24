"""Tables in CSV files, every mistake told with its line."""
