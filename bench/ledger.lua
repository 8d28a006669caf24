-- Transfers: two accounts are locked and changed, and a line with a random key is written, in one transaction.
require("oltp_common")

local ACCOUNTS = 20000

local function make_tables()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL, changed DATETIME)")
   con:query("CREATE TABLE ledger (id BINARY(16) PRIMARY KEY, payer INT, payee INT, amount INT, made DATETIME, KEY (payer))")
   con:bulk_insert_init("INSERT INTO accounts (id, balance) VALUES")
   for i = 1, ACCOUNTS do con:bulk_insert_next("(" .. i .. ",1000000)") end
   con:bulk_insert_done()
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
   local payer = sysbench.rand.uniform(1, ACCOUNTS - 1)
   local payee = sysbench.rand.uniform(payer + 1, ACCOUNTS)
   local amount = sysbench.rand.uniform(1, 100)
   con:query("BEGIN")
   con:query("SELECT id, balance FROM accounts WHERE id IN (" .. payer .. "," .. payee .. ") ORDER BY id FOR UPDATE")
   con:query("UPDATE accounts SET balance = balance - " .. amount .. ", changed = NOW() WHERE id = " .. payer)
   con:query("UPDATE accounts SET balance = balance + " .. amount .. ", changed = NOW() WHERE id = " .. payee)
   con:query("INSERT INTO ledger VALUES (UNHEX(REPLACE(UUID(), '-', '')), " .. payer .. "," .. payee .. "," ..
             amount .. ", NOW())")
   con:query("COMMIT")
   con:query("SELECT amount, made FROM ledger WHERE payer = " .. payer .. " ORDER BY made DESC LIMIT 10")
end
