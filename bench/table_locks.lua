-- A MyISAM table, which a write locks as a whole: four of five events read twenty rows, the fifth writes one.
require("oltp_common")

local ROWS = 20000

local function make_tables()
    local drv = sysbench.sql.driver()
    local con = drv:connect()
    con:query("CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, hits INT, line CHAR(100)) ENGINE=MyISAM")
    con:query("INSERT INTO log (hits, line) VALUES (0, REPEAT('a line', 16))")
    local rows = 1
    while rows < ROWS do
        con:query("INSERT INTO log (hits, line) SELECT hits, line FROM log LIMIT " .. ROWS - rows)
        rows = math.min(2 * rows, ROWS)
    end
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
    local id = sysbench.rand.uniform(1, ROWS - 20)
    if sysbench.rand.uniform(1, 5) == 1 then
        con:query("UPDATE log SET hits = hits + 1 WHERE id = " .. id)
    else
        con:query("SELECT line FROM log WHERE id BETWEEN " .. id .. " AND " .. id + 19)
    end
end
