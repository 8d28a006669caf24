"""A replica of MySQL or MariaDB, set up to follow a source."""

from agent.demo.private_server import PrivateServer
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until

REPLICA = ["--server-id=2", "--log-bin=bin"]
FOLLOW = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port},"
    " SOURCE_USER = 'follower', SOURCE_PASSWORD = 'follow', SOURCE_SSL = 1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port},"
    " MASTER_USER = 'follower', MASTER_PASSWORD = 'follow'",
}
START = {"mysql": "START REPLICA", "mariadb": "START SLAVE"}
STOP = {"mysql": "STOP REPLICA", "mariadb": "STOP SLAVE"}
DUMPS = (
    "SELECT PROCESSLIST_ID FROM performance_schema.threads"
    " WHERE PROCESSLIST_COMMAND LIKE 'Binlog Dump%'"
)


def let_follow(source: PrivateServer, replica: PrivateServer) -> None:
    """Let one server replicate another, and wait until it does."""
    run_as_root(source, "CREATE USER IF NOT EXISTS follower IDENTIFIED BY 'follow'")
    run_as_root(source, "GRANT REPLICATION SLAVE ON *.* TO follower")
    run_as_root(replica, FOLLOW[replica.flavour].format(port=source.port), START[replica.flavour])
    wait_until("a binlog dump", lambda: run_as_root(source, DUMPS))
