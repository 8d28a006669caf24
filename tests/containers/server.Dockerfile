# Stands in for the images mysql and mariadb; see entrypoint.sh.
ARG BASE
FROM ${BASE}
RUN groupadd --system --gid 999 mysql && useradd --system --uid 999 --gid mysql mysql \
    && mkdir -p /var/lib/mysql /var/run/mysqld /docker-entrypoint-initdb.d \
    && chown mysql:mysql /var/lib/mysql /var/run/mysqld && chmod 1777 /var/run/mysqld
COPY server /opt/server
COPY flavour /opt/flavour
COPY entrypoint.sh /usr/local/bin/docker-entrypoint.sh
# The official images have mysqladmin (MySQL) or mariadb-admin (MariaDB); Debian's packages of the
# server's core have neither, so a client that tries to connect stands in for its `ping`.
RUN admin=$(sed 's/mysql/mysqladmin/; s/mariadb/mariadb-admin/' /opt/flavour) \
    && printf '%s\n' '#!/bin/bash' \
        'usr=/opt/server/usr; loader=$(echo $usr/lib/*/ld-linux-*.so.*)' \
        '"$loader" --library-path "$(dirname "$loader")" $usr/bin/$(cat /opt/flavour) --no-defaults \' \
        '    --host=127.0.0.1 --user=nobody --execute="DO 0" 2>&1 | grep -q "Access denied"' \
        >/usr/bin/$admin && chmod 755 /usr/bin/$admin
VOLUME /var/lib/mysql
ENTRYPOINT ["docker-entrypoint.sh"]
