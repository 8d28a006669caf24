"""The sub-commands of `mysql-headroom`, a module each, and what they say."""
