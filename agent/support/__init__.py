"""What every room uses: logs, escaping, threads, files, HTTP."""
