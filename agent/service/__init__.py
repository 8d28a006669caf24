"""The daemon: targets watched in threads, reloads, and the service manager."""
