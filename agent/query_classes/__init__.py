"""Query classes live: what each did, and which part of the server's use was its own."""
