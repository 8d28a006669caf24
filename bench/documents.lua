-- Documents of 16 KiB: nineteen of twenty events read one, the twentieth writes one anew.
require("oltp_common")

local DOCUMENTS = 2000

local function make_tables()
    local drv = sysbench.sql.driver()
    local con = drv:connect()
    con:query("CREATE TABLE documents (id INT AUTO_INCREMENT PRIMARY KEY, body MEDIUMTEXT)")
    for _ = 1, DOCUMENTS do
        con:query("INSERT INTO documents (body) VALUES (REPEAT('a document', 1638))")
    end
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

function event()
    local id = sysbench.rand.uniform(1, DOCUMENTS)
    if sysbench.rand.uniform(1, 20) == 1 then
        con:query("UPDATE documents SET body = REPEAT('a new text', 1638) WHERE id = " .. id)
    else
        con:query("SELECT body FROM documents WHERE id = " .. id)
    end
end
