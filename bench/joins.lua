-- The orders of a customer with their lines and articles, by secondary indices; each 20th the best sold of a group.
require("oltp_common")

local CUSTOMERS = 2000
local ORDERS_EACH, LINES_EACH, ARTICLES, GROUPS = 5, 4, 1000, 50

local function fill(con, name, columns, count, row)
   con:bulk_insert_init("INSERT INTO " .. name .. " (" .. columns .. ") VALUES")
   for i = 1, count do con:bulk_insert_next(row(i)) end
   con:bulk_insert_done()
end

local function make_tables()
   local con = sysbench.sql.driver():connect()
   local orders = CUSTOMERS * ORDERS_EACH
   con:query("CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(64))")
   con:query("CREATE TABLE orders (id INT PRIMARY KEY, customer INT, made DATE, KEY (customer))")
   con:query("CREATE TABLE articles (id INT PRIMARY KEY, kind INT, name VARCHAR(64), KEY (kind))")
   con:query("CREATE TABLE lines_of (id INT PRIMARY KEY, of_order INT, article INT, pieces INT, " ..
             "KEY (of_order), KEY (article))")
   fill(con, "customers", "id, name", CUSTOMERS, function(i) return "(" .. i .. ",'customer " .. i .. "')" end)
   fill(con, "orders", "id, customer, made", orders,
        function(i) return "(" .. i .. "," .. i % CUSTOMERS + 1 .. ",CURDATE())" end)
   fill(con, "articles", "id, kind, name", ARTICLES,
        function(i) return "(" .. i .. "," .. i % GROUPS .. ",'article " .. i .. "')" end)
   fill(con, "lines_of", "id, of_order, article, pieces", orders * LINES_EACH,
        function(i) return "(" .. i .. "," .. i % orders + 1 .. "," .. i * 7 % ARTICLES + 1 .. "," .. i % 9 + 1 .. ")" end)
   con:query("ANALYZE TABLE customers, orders, articles, lines_of")
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
   if sysbench.rand.uniform(1, 20) == 1 then
      con:query("SELECT a.id, a.name, SUM(l.pieces) AS sold FROM articles a JOIN lines_of l ON l.article = a.id " ..
                "WHERE a.kind = " .. sysbench.rand.uniform(0, GROUPS - 1) ..
                " GROUP BY a.id, a.name ORDER BY sold DESC LIMIT 5")
   else
      con:query("SELECT c.name, o.id, o.made, a.name, l.pieces FROM customers c JOIN orders o ON o.customer = c.id " ..
                "JOIN lines_of l ON l.of_order = o.id JOIN articles a ON a.id = l.article WHERE c.id = " ..
                sysbench.rand.uniform(1, CUSTOMERS))
   end
end
