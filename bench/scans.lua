-- Reads of whole ranges that no index helps: a scan, a sort and a group of 500 to 2,000 rows each.
require("oltp_common")

function prepare_statements()
end

function event()
    local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
    local first = sysbench.rand.uniform(1, sysbench.opt.table_size - 2000)
    local rows = sysbench.rand.uniform(500, 2000)
    local where = " WHERE id BETWEEN " .. first .. " AND " .. first + rows
    con:query("SELECT COUNT(*) FROM " .. name .. where .. " AND c LIKE '%7-%'")
    con:query("SELECT pad FROM " .. name .. where .. " ORDER BY c LIMIT 10")
    con:query("SELECT k % 50, COUNT(*) FROM " .. name .. where .. " GROUP BY k % 50")
end
