-- A mix of six classes in fixed proportions. See bench/class_removal.py.
sysbench.cmdline.options = {
    rows = { "rows of each of the tables", 200000 },
    without = { "the class that is left out", "" },
    half = { "the class of which a call works on so few rows that it costs half", "" },
}

local function from(rows) return sysbench.rand.uniform(1, sysbench.opt.rows - rows) end

-- Name, calls in a deck, rows of a call, rows that cost half, the statement over so many rows.
local CLASSES = {
    { "point", 54, 1, 1, function()
        return "SELECT c FROM sbtest1 WHERE id = " .. from(1) end },
    { "update", 6, 1, 1, function()
        return "UPDATE sbtest1 SET c = '" .. sysbench.rand.string(string.rep("#", 60))
            .. "' WHERE id = " .. from(1) end },
    { "range", 20, 300, 85, function(rows)
        local a = from(rows)
        return "SELECT c FROM sbtest2 WHERE id BETWEEN " .. a .. " AND " .. a + rows - 1 end },
    { "sort", 10, 300, 105, function(rows)
        local a = from(rows)
        return "SELECT c FROM sbtest3 WHERE id BETWEEN " .. a .. " AND " .. a + rows - 1
            .. " ORDER BY c" end },
    { "sum", 6, 3000, 1270, function(rows)
        local a = from(rows)
        return "SELECT SUM(k) FROM sbtest2 WHERE id BETWEEN " .. a .. " AND " .. a + rows - 1 end },
    { "scan", 4, 5000, 2300, function(rows)
        local a = from(rows)
        return "SELECT COUNT(*) FROM sbtest4 WHERE id BETWEEN " .. a .. " AND " .. a + rows - 1
            .. " AND pad LIKE '%77777%'" end },
}

-- Each thread deals from a shuffled deck of its own: the proportions hold at all times.
local function new_deck()
    local deck = {}
    for _, class in ipairs(CLASSES) do
        local name, calls, rows, fewer, statement = unpack(class)
        if name == sysbench.opt.half then rows = fewer end
        for _ = 1, name == sysbench.opt.without and 0 or calls do
            table.insert(deck, function() return statement(rows) end)
        end
    end
    return deck
end

function thread_init()
    connection = sysbench.sql.driver():connect()
    deck, left = new_deck(), 0
end

function thread_done()
    connection:disconnect()
end

function event()
    if left == 0 then left = #deck end
    local one = sysbench.rand.uniform(1, left)
    deck[one], deck[left] = deck[left], deck[one]
    connection:query(deck[left]())
    left = left - 1
end
