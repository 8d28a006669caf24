-- A stored procedure: it reads an account, moves money to another, and writes both and a journal in one transaction.
require("oltp_common")

local ACCOUNTS = 10000

local PROCEDURE = [[
CREATE PROCEDURE transfer(payer INT, payee INT, amount INT)
BEGIN
   DECLARE balance_left INT;
   START TRANSACTION;
   SELECT balance INTO balance_left FROM accounts WHERE id = payer;
   IF balance_left >= amount THEN
      UPDATE accounts SET balance = balance - amount WHERE id = payer;
      UPDATE accounts SET balance = balance + amount WHERE id = payee;
      INSERT INTO journal (payer, payee, amount, made) VALUES (payer, payee, amount, NOW());
   END IF;
   COMMIT;
END]]

local function make_tables()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)")
   con:query("CREATE TABLE journal (id INT AUTO_INCREMENT PRIMARY KEY, payer INT, payee INT, amount INT, made DATETIME)")
   con:bulk_insert_init("INSERT INTO accounts VALUES")
   for i = 1, ACCOUNTS do con:bulk_insert_next("(" .. i .. ",1000000)") end
   con:bulk_insert_done()
   con:query(PROCEDURE)
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
   local payer = sysbench.rand.uniform(1, ACCOUNTS - 1)
   local payee = sysbench.rand.uniform(payer + 1, ACCOUNTS)
   if sysbench.rand.uniform(1, 3) > 1 then
      con:query("SELECT balance FROM accounts WHERE id = " .. payer)
   else
      con:query("CALL transfer(" .. payer .. ", " .. payee .. ", 5)")
   end
end
