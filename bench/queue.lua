-- Jobs in a table: each event appends one and takes the first that nobody else holds.
require("oltp_common")

local function make_tables()
    local drv = sysbench.sql.driver()
    local con = drv:connect()
    con:query("CREATE TABLE jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload CHAR(200))")
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
    con:query("INSERT INTO jobs (payload) VALUES ('send a letter')")
    con:query("BEGIN")
    local job = con:query_row("SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
    if job ~= nil then
        con:query("DELETE FROM jobs WHERE id = " .. job)
    end
    con:query("COMMIT")
end
