-- A contended workload: a pause within the server, a hot row, two reads. See bench/real_servers.py.
function thread_init()
    connection = sysbench.sql.driver():connect()
end

function thread_done()
    connection:disconnect()
end

function event()
    connection:query("SELECT SLEEP(0.005)")
    connection:query("UPDATE hot SET n = n + 1 WHERE id = 1")
    connection:query("SELECT n FROM cold WHERE id = " .. sysbench.rand.uniform(1, 1000))
    connection:query("SELECT n FROM cold WHERE id = " .. sysbench.rand.uniform(1, 1000))
end
