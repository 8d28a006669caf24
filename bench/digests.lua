-- Statements of as many classes as asked for, each in its turn. See bench/many_digest_fixture.py.
sysbench.cmdline.options = { classes = { "how many", 600 } }

local turn = 0

function thread_init()
    connection = sysbench.sql.driver():connect()
end

function thread_done()
    connection:disconnect()
end

function event()
    turn = turn % sysbench.opt.classes + 1
    connection:query("SELECT a, b AS class_" .. turn .. " FROM orders WHERE id = 7 AND a < 100")
end
