"""What all parts of the agent use: logs, escaping, threads, files, HTTP."""
