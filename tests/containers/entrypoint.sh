#!/bin/bash
# Stands in for the entrypoint of the official images of MySQL and MariaDB, as far as docker-compose.yml
# relies on it: a new data directory, a root password that nobody chose, the files of
# /docker-entrypoint-initdb.d with docker_process_sql, then the server as its own user.
set -eu
data=/var/lib/mysql socket=/var/run/mysqld/mysqld.sock
flavour=$(cat /opt/flavour)
usr=/opt/server/usr
loader=$(echo $usr/lib/*/ld-linux-*.so.*)

run() { "$loader" --library-path "$(dirname "$loader")" "$@"; }
client() { run $usr/bin/$flavour --no-defaults --user=root --socket=$socket "$@"; }
docker_process_sql() { client "$@"; }

server=("$loader" --library-path "$(dirname "$loader")" $usr/sbin/${flavour}d --no-defaults
    --basedir=$usr --plugin-dir=$usr/lib/mysql/plugin --lc-messages-dir=$usr/share/$flavour
    --character-sets-dir=$usr/share/$flavour/charsets --datadir=$data --socket=$socket --pid-file=$data/server.pid)
[ "$flavour" = mariadb ] || server+=(--secure-file-priv=NULL --mysqlx=OFF)
as_mysql=(setpriv --reuid=mysql --regid=mysql --clear-groups)

initialise() {
    if [ "$flavour" = mysql ]; then
        "${as_mysql[@]}" "${server[@]}" --initialize-insecure
    else
        "${as_mysql[@]}" $usr/bin/mariadb-install-db --no-defaults --datadir=$data \
            --auth-root-authentication-method=normal --skip-test-db >/dev/null
    fi
    "${as_mysql[@]}" "${server[@]}" "$@" --skip-networking &
    first=$!
    until client --execute="DO 0" 2>/dev/null; do sleep 0.1; done
    for file in /docker-entrypoint-initdb.d/*; do
        if [ -x "$file" ]; then "$file"; else . "$file"; fi
    done
    [ "${MYSQL_RANDOM_ROOT_PASSWORD:-}" = yes ] || { echo "no root password is asked for" >&2 && exit 1; }
    password=$(head -c 16 /dev/urandom | base64)
    client --execute="ALTER USER root@localhost IDENTIFIED BY '$password'"
    kill $first && wait $first
}

chown mysql $data /var/run/mysqld
[ -d $data/mysql ] || initialise "$@"
exec "${as_mysql[@]}" "${server[@]}" "$@"
