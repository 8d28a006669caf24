"""Faults of a private server: it restarts, or its process stands still."""

import os
import signal

from agent.demo.private_server import PrivateServer


def restart_server(server: PrivateServer) -> None:
    """Stop a server and start it again, with the same data and port."""
    server.stop()
    server.start()


def freeze_server(server: PrivateServer) -> None:
    """Stop its process (SIGSTOP): it still accepts connections, and answers nothing."""
    os.kill(server.pid, signal.SIGSTOP)


def thaw_server(server: PrivateServer) -> None:
    """Continue a frozen server, if it is running."""
    if server.is_running:
        os.kill(server.pid, signal.SIGCONT)
