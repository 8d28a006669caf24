-- Rows in bulk: a hundred with every statement, as an import sends them.
require("oltp_common")

local ROWS = 100

function prepare_statements()
end

function event()
    local rows = {}
    for row = 1, ROWS do
        local k = sysbench.rand.uniform(1, sysbench.opt.table_size)
        rows[row] = "(" .. k .. ", 'imported', 'row " .. row .. "')"
    end
    con:query("INSERT INTO sbtest1 (k, c, pad) VALUES " .. table.concat(rows, ","))
end
