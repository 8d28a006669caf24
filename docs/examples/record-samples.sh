#!/bin/sh
# Records a MySQL or MariaDB server as CSV, for `mysql-headroom replay` and `compare`; docs/replay.md.
#
#   sh record-samples.sh --socket=/run/mysqld/mysqld.sock --user=root >samples.csv
#
# The options are those of the client (MYSQL names another one than `mysql`). It takes a sample every
# INTERVAL seconds (5), until Ctrl-C or, if SAMPLES is set, for that number of them. CPU is recorded
# where the server runs on this host and its pid file can be read. Nothing is written to the server.
set -eu
export LC_ALL=C # a decimal point, whatever the language

interval=${INTERVAL:-5}
left=${SAMPLES:--1}
ticks=$(getconf CLK_TCK)
own=0

query="
SHOW GLOBAL STATUS WHERE Variable_name IN
    ('Questions', 'Threads_running', 'Uptime', 'Threads_connected', 'Innodb_log_writes',
    'Innodb_os_log_fsyncs');
SELECT 'time', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000
    UNION ALL SELECT 'max_connections', @@max_connections
    UNION ALL SELECT 'pid_file', @@pid_file
    UNION ALL SELECT 'statement_time', SUM(SUM_TIMER_WAIT) / 1e12
    FROM performance_schema.events_statements_summary_global_by_event_name;"

# The CPU time of the server's process, s: user and system, after the name in parentheses.
server_cpu() {
    pid=$(cat "$1" 2>/dev/null) || return 0
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE 'mysqld|mariadbd' || return 0
    sed 's/.*) //' "/proc/$pid/stat" | awk -v t="$ticks" '{ printf "%.2f\n", ($12 + $13) / t }'
}

# The CPU time of all programs, s, from the first line of /proc/stat: without idle and iowait.
host_cpu() {
    [ -z "$1" ] || awk -v t="$ticks" '{ printf "%.2f\n", ($2 + $3 + $4 + $7 + $8 + $9) / t; exit }' /proc/stat
}

echo "t_s,questions,threads_running,uptime_s,threads_connected,redo_writes,redo_syncs," \
    "max_connections,statement_time_s,own_statements,server_cpu_s,host_cpu_busy_s,cpus" | tr -d ' '
while [ "$left" -ne 0 ]; do
    found=$("${MYSQL:-mysql}" "$@" --batch --skip-column-names -e "$query") # --defaults-file is first
    own=$((own + 2))
    used=$(server_cpu "$(printf '%s\n' "$found" | awk -F '\t' '$1 == "pid_file" { print $2 }')")
    busy=$(host_cpu "$used")
    printf '%s\n' "$found" | awk -F '\t' -v OFS=, -v own="$own" -v used="$used" -v busy="$busy" \
        -v cpus="${used:+$(nproc --all)}" '
        { is[tolower($1)] = $2 }
        END {
            print is["time"], is["questions"], is["threads_running"], is["uptime"],
                is["threads_connected"], is["innodb_log_writes"], is["innodb_os_log_fsyncs"],
                is["max_connections"], is["statement_time"], own, used, busy, cpus
        }'
    left=$((left - 1))
    [ "$left" -eq 0 ] || sleep "$interval"
done
