-- A row by its key over a connection of its own: each event connects, asks once and hangs up.
require("oltp_common")

function prepare_statements()
end

function event()
    con:disconnect()
    con = drv:connect()
    local id = sysbench.rand.uniform(1, sysbench.opt.table_size)
    con:query("SELECT c FROM sbtest1 WHERE id = " .. id)
end
