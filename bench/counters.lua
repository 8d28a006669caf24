-- Counters that are created where they are missing: one row of some hundreds for each event.
require("oltp_common")

local COUNTERS = 500

local function make_tables()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE counters (name VARCHAR(32) PRIMARY KEY, hits INT NOT NULL, seen TIMESTAMP)")
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
   con:query("INSERT INTO counters VALUES ('page-" .. sysbench.rand.uniform(1, COUNTERS) ..
             "', 1, NOW()) ON DUPLICATE KEY UPDATE hits = hits + 1, seen = NOW()")
end
