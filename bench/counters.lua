-- Counters that are made where they are missing: one row of some hundred for each event.
sysbench.cmdline.options = {counters = {"How many counters there are", 500}}

function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE counters (name VARCHAR(32) PRIMARY KEY, hits INT NOT NULL, seen TIMESTAMP)")
   con:disconnect()
end

function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   con:query("INSERT INTO counters VALUES ('page-" .. sysbench.rand.uniform(1, sysbench.opt.counters) ..
             "', 1, NOW()) ON DUPLICATE KEY UPDATE hits = hits + 1, seen = NOW()")
end
