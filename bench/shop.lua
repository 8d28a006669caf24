-- A shop: nine of ten visitors look at goods, the tenth buys, and one of twenty buyers gives up.
require("oltp_common")

function prepare_statements()
end

local function any()
    return sysbench.rand.uniform(1, sysbench.opt.table_size)
end

local function look()
    for _ = 1, 4 do
        con:query("SELECT c, pad FROM sbtest1 WHERE id = " .. any())
    end
    local first = any()
    con:query("SELECT id, k FROM sbtest1 WHERE id BETWEEN " .. first .. " AND " .. first + 20)
end

local function buy()
    con:query("BEGIN")
    con:query("SELECT k FROM sbtest1 WHERE id = " .. any())
    con:query("UPDATE sbtest1 SET k = k + 1 WHERE id = " .. any())
    con:query("INSERT INTO sbtest2 (k, c, pad) VALUES (" .. any() .. ", 'order', 'line')")
    if sysbench.rand.uniform(1, 20) == 1 then
        con:query("ROLLBACK")
    else
        con:query("COMMIT")
    end
end

function event()
    if sysbench.rand.uniform(1, 10) == 1 then
        buy()
    else
        look()
    end
end
