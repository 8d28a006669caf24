-- Twenty classes of query, each at a rate that wanders on its own. See bench/record_classes.py.
local ffi = require("ffi")
ffi.cdef [[
    typedef struct { long seconds; long nanoseconds; } clock_time;
    int clock_gettime(int clock, clock_time *now);
    int usleep(unsigned int microseconds);
]]

sysbench.cmdline.options = {
    part = { "work: those that compute; wait: those that wait", "work" },
    speed = { "times the usual rate of those that compute", 1.0 },
    common = { "the part of each rate's wandering that all share, 0 to 1", 0.0 },
    rows = { "rows of each of the four tables", 200000 },
}

local SPREAD = 0.6 -- standard deviation of a rate's logarithm
local PERIODS = { 7, 17, 41, 97 } -- seconds; about, and none the same for two classes

local function row(o) return sysbench.rand.uniform(1, o.rows) end

-- Name, calls a second at the usual rate, and the statement.
local WORK = {
    { "point_pk", 2500, function(o) return "SELECT c FROM sbtest1 WHERE id = " .. row(o) end },
    { "point_k", 400, function(o)
        return "SELECT id, c FROM sbtest2 WHERE k = " .. row(o) .. " LIMIT 1" end },
    { "range100", 290, function(o)
        local a = row(o)
        return "SELECT c FROM sbtest1 WHERE id BETWEEN " .. a .. " AND " .. a + 100 end },
    { "range_sum", 160, function(o)
        local a = row(o)
        return "SELECT SUM(k) FROM sbtest2 WHERE id BETWEEN " .. a .. " AND " .. a + 3000 end },
    { "order_range", 250, function(o)
        local a = row(o)
        return "SELECT c FROM sbtest3 WHERE id BETWEEN " .. a .. " AND " .. a + 300
            .. " ORDER BY c" end },
    { "distinct", 50, function(o)
        local a = row(o)
        return "SELECT DISTINCT c FROM sbtest4 WHERE id BETWEEN " .. a .. " AND " .. a + 450
            .. " ORDER BY c" end },
    { "bigres", 36, function(o)
        local a = row(o)
        return "SELECT c, pad FROM sbtest4 WHERE id BETWEEN " .. a .. " AND " .. a + 1000 end },
    { "scan_like", 6, function(o)
        local a = row(o) / 2
        return "SELECT COUNT(*) FROM sbtest4 WHERE id BETWEEN " .. a .. " AND " .. a + 20000
            .. " AND pad LIKE '%77777%'" end },
    { "cpu_sha", 100, function() return "SELECT BENCHMARK(700, SHA2('abc', 256))" end },
    { "join2", 120, function()
        local a = sysbench.rand.uniform(1, 19000)
        return "SELECT c.name, SUM(o.amt) FROM cust c JOIN orders o ON o.cust = c.id"
            .. " WHERE c.id BETWEEN " .. a .. " AND " .. a + 20 .. " GROUP BY c.name" end },
    { "join3", 10, function()
        local a = sysbench.rand.uniform(1, 19000)
        return "SELECT p.title, COUNT(*), SUM(o.amt) FROM cust c JOIN orders o ON o.cust = c.id"
            .. " JOIN prod p ON p.id = o.prod WHERE c.id BETWEEN " .. a .. " AND " .. a + 400
            .. " GROUP BY p.title ORDER BY 3 DESC LIMIT 10" end },
    { "orders_scan", 1.4, function()
        return "SELECT COUNT(*), MAX(ts) FROM orders WHERE amt > "
            .. sysbench.rand.uniform(1, 500) end },
    { "report", 0.1, function()
        return "SELECT s.k % 100 g, COUNT(*), AVG(LENGTH(s.c)), COUNT(DISTINCT LEFT(s.c, 3))"
            .. " FROM sbtest2 s WHERE s.id < 75000 GROUP BY g ORDER BY g" end },
    { "update_pk", 275, function(o)
        return "UPDATE sbtest1 SET c = '" .. sysbench.rand.string(string.rep("#", 60))
            .. "' WHERE id = " .. row(o) end },
    { "update_idx", 140, function(o)
        return "UPDATE sbtest2 SET k = k + 1 WHERE id = " .. row(o) end },
    { "insert_lg", 260, function(o)
        return "INSERT INTO lg (ts, a, b) VALUES (NOW(6), " .. row(o) .. ", 'some words')" end },
    { "delete_lg", 30, function() return "DELETE FROM lg ORDER BY id LIMIT 9" end },
}

local function now()
    local t = ffi.new("clock_time")
    ffi.C.clock_gettime(0, t)
    return tonumber(t.seconds) + 1e-9 * tonumber(t.nanoseconds)
end

local function pause(seconds)
    if seconds > 0 then ffi.C.usleep(math.min(seconds, 0.9) * 1e6) end
end

-- A smooth wandering with mean 0 and variance 1, the same in every thread; k tells classes apart.
local function wander(k, t)
    local sum = 0
    for i, period in ipairs(PERIODS) do
        local own = period * (1 + 0.37 * ((k * 7 + i * 3) % 11) / 11)
        sum = sum + math.sin(2 * math.pi * t / own + 2.4 * k * i)
    end
    return sum * math.sqrt(2 / #PERIODS)
end

local function mood(o, k, t)
    local own, all = math.sqrt(1 - o.common), math.sqrt(o.common)
    return math.exp(SPREAD * (own * wander(k, t) + all * wander(0, t)) - SPREAD ^ 2 / 2)
end

function thread_init()
    connection = sysbench.sql.driver():connect()
    due = now()
end

function thread_done()
    connection:disconnect()
end

-- A stream of arrivals for each thread; one that is late does not make up for more than a moment.
local function work()
    local o, t = sysbench.opt, now()
    local rates, whole = {}, 0
    for k, class in ipairs(WORK) do
        rates[k] = class[2] * mood(o, k, t)
        whole = whole + rates[k]
    end
    local point = sysbench.rand.uniform_double() * whole
    local k = 1
    while k < #WORK and point > rates[k] do
        point = point - rates[k]
        k = k + 1
    end
    due = math.max(due, t - 0.2)
        - math.log(1 - sysbench.rand.uniform_double()) * o.threads / (whole * o.speed)
    pause(due - t)
    connection:query(WORK[k][3](o))
end

local function hot_row(id)
    connection:query("BEGIN")
    connection:query("SELECT n FROM hot WHERE id = 1 FOR UPDATE")
    pause(0.02)
    connection:query("UPDATE hot SET n = n + 1 WHERE id = 1")
    connection:query("COMMIT")
end

local function user_lock()
    connection:query("SELECT GET_LOCK('one', 1)")
    pause(0.03)
    connection:query("SELECT RELEASE_LOCK('one')")
end

local function wait(thread)
    local kind = thread % 3
    if kind == 0 then
        connection:query("SELECT SLEEP(" .. 0.05 + 0.15 * sysbench.rand.uniform_double() .. ")")
    elseif kind == 1 then
        hot_row()
    else
        user_lock()
    end
    pause(0.03 / mood(sysbench.opt, 50 + kind, now()))
end

function event(thread)
    if sysbench.opt.part == "wait" then wait(thread) else work() end
end
