-- Reports among short reads: 49 of 50 events read a row by its key, the fiftieth sums 5,000 rows.
require("oltp_common")

local ROWS = 5000

function prepare_statements()
end

function event()
    local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
    if sysbench.rand.uniform(1, 50) == 1 then
        local first = sysbench.rand.uniform(1, sysbench.opt.table_size - ROWS)
        con:query("SELECT SUM(k) FROM " .. name .. " WHERE id BETWEEN " .. first .. " AND " .. first + ROWS)
    else
        con:query("SELECT c FROM " .. name .. " WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
    end
end
