"""The daemon: monitors of the targets in threads, reloads, and the service manager."""
