-- The least that mysql-headroom needs, on MySQL and MariaDB. Make the account first, with a
-- password of your own and, if you can, a narrower host than '%':
--
--   CREATE USER 'headroom'@'%' IDENTIFIED BY '...';
--
-- It reads performance_schema and the server's status; it sees no table of yours, unless you
-- configure business metrics: `mysql-headroom check` prints the grant that each of them needs.
GRANT SELECT ON performance_schema.* TO 'headroom'@'%';

-- The agent keeps one connection open, and one for business metrics. The limit bounds what any mishap can take from the server.
ALTER USER 'headroom'@'%' WITH MAX_USER_CONNECTIONS 3;
