"""The sub-commands of `mysql-headroom`, one module each, with their options and reports."""
