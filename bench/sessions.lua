-- A store of sessions: most are read by their key, one of four is written, some are new, and old ones are deleted.
require("oltp_common")

local SESSIONS, BYTES, EXPIRED = 40000, 2000, 100

local function make_tables()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE sessions (id INT PRIMARY KEY, user INT NOT NULL, data VARBINARY(4000), touched DATETIME(3), KEY (touched))")
   con:bulk_insert_init("INSERT INTO sessions VALUES")
   for i = 1, SESSIONS do
      con:bulk_insert_next("(" .. i .. "," .. i % 5000 .. ",'" .. string.rep("s", BYTES) .. "',NOW(3))")
   end
   con:bulk_insert_done()
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
   local id, chance = sysbench.rand.uniform(1, SESSIONS), sysbench.rand.uniform(1, 200)
   local data = string.rep(string.char(96 + sysbench.rand.uniform(1, 26)), BYTES)
   if chance == 1 then
      con:query("DELETE FROM sessions WHERE touched < NOW(3) - INTERVAL 1 MINUTE ORDER BY touched LIMIT " .. EXPIRED)
   elseif chance <= 10 then
      con:query("REPLACE INTO sessions VALUES (" .. id .. "," .. id % 5000 .. ",'" .. data .. "',NOW(3))")
   elseif chance <= 50 then
      con:query("UPDATE sessions SET data = '" .. data .. "', touched = NOW(3) WHERE id = " .. id)
   else
      con:query("SELECT user, data FROM sessions WHERE id = " .. id)
   end
end
