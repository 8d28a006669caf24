-- Orders and payments in two warehouses, after the transactions of TPC-C (standard specification
-- 5.11, clauses 2.4 to 2.7): ten of 23 are new orders, ten payments, one asks for an order's state,
-- one delivers, one looks at the stock. Every new order locks its district's row, every payment its
-- warehouse's: few warehouses are what makes them wait for each other.
require("oltp_common")

local WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS = 2, 10, 300, 1000

local function any(most)
    return sysbench.rand.uniform(1, most)
end

local function district_of(warehouse)
    return warehouse * 100 + any(DISTRICTS)
end

local function rows_of(from, to, columns)
    local rows = {}
    for id = from, to do
        rows[#rows + 1] = "(" .. id .. columns .. ")"
    end
    return table.concat(rows, ",")
end

local function make_tables()
    local drv = sysbench.sql.driver()
    local con = drv:connect()
    con:query("CREATE TABLE warehouse (id INT PRIMARY KEY, ytd BIGINT)")
    con:query("CREATE TABLE district (id INT PRIMARY KEY, next_order BIGINT, ytd BIGINT)")
    con:query("CREATE TABLE customer (id INT PRIMARY KEY, balance BIGINT, data CHAR(200))")
    con:query("CREATE TABLE stock (id INT PRIMARY KEY, quantity INT, data CHAR(50))")
    con:query("CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, district INT,"
        .. " customer INT, delivered INT DEFAULT 0, KEY (district, delivered), KEY (customer))")
    con:query("CREATE TABLE order_line (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id BIGINT,"
        .. " item INT, quantity INT, KEY (order_id))")
    con:query("INSERT INTO warehouse VALUES " .. rows_of(1, WAREHOUSES, ",0"))
    for warehouse = 1, WAREHOUSES do
        local first = warehouse * 100
        con:query("INSERT INTO district VALUES " .. rows_of(first + 1, first + DISTRICTS, ",1,0"))
        first = warehouse * 10000
        con:query("INSERT INTO stock VALUES " .. rows_of(first + 1, first + ITEMS, ",100,'goods'"))
    end
    con:query("INSERT INTO customer VALUES " .. rows_of(1, CUSTOMERS * DISTRICTS, ",0,'known'"))
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

local function new_order()
    local warehouse = any(WAREHOUSES)
    local district, customer = district_of(warehouse), any(CUSTOMERS * DISTRICTS)
    con:query("BEGIN")
    con:query("SELECT balance FROM customer WHERE id = " .. customer)
    con:query("UPDATE district SET next_order = next_order + 1 WHERE id = " .. district)
    con:query("INSERT INTO orders (district, customer) VALUES (" .. district .. "," .. customer .. ")")
    local lines = {}
    for line = 1, any(5) + 5 do
        local item = warehouse * 10000 + any(ITEMS)
        con:query("SELECT quantity FROM stock WHERE id = " .. item)
        con:query("UPDATE stock SET quantity = quantity - 1 WHERE id = " .. item)
        lines[line] = "(LAST_INSERT_ID()," .. item .. ",1)"
    end
    con:query("INSERT INTO order_line (order_id, item, quantity) VALUES " .. table.concat(lines, ","))
    -- one of a hundred names an item that does not exist (clause 2.4.1.4)
    con:query(any(100) == 1 and "ROLLBACK" or "COMMIT")
end

local function payment()
    local warehouse, customer = any(WAREHOUSES), any(CUSTOMERS * DISTRICTS)
    con:query("BEGIN")
    con:query("UPDATE warehouse SET ytd = ytd + 10 WHERE id = " .. warehouse)
    con:query("UPDATE district SET ytd = ytd + 10 WHERE id = " .. district_of(warehouse))
    con:query("UPDATE customer SET balance = balance - 10 WHERE id = " .. customer)
    con:query("COMMIT")
end

local function order_status()
    local customer = any(CUSTOMERS * DISTRICTS)
    con:query("SELECT balance FROM customer WHERE id = " .. customer)
    con:query("SELECT id, delivered FROM orders WHERE customer = " .. customer
        .. " ORDER BY id DESC LIMIT 1")
end

local function delivery()
    local district = district_of(any(WAREHOUSES))
    con:query("UPDATE orders SET delivered = 1 WHERE district = " .. district
        .. " AND delivered = 0 ORDER BY id LIMIT 1")
end

local function stock_level()
    local first = any(WAREHOUSES) * 10000 + any(ITEMS - 20)
    con:query("SELECT COUNT(*) FROM stock WHERE id BETWEEN " .. first .. " AND " .. first + 20
        .. " AND quantity < 15")
end

function event()
    local which = any(23)
    if which <= 10 then
        new_order()
    elseif which <= 20 then
        payment()
    elseif which == 21 then
        order_status()
    elseif which == 22 then
        delivery()
    else
        stock_level()
    end
end
