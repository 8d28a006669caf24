#!/bin/sh
# Makes the agent's account on the first start. The image's entrypoint sources this file, which is
# why docker_process_sql exists here, and why this file must not be executable.
headroom_password=$(sed "s/[\\\\']/&&/g" /run/secrets/headroom_password)
docker_process_sql <<SQL
CREATE USER IF NOT EXISTS 'headroom'@'%' IDENTIFIED BY '$headroom_password';
SQL
docker_process_sql < /opt/mysql-headroom/grants.sql
unset headroom_password
