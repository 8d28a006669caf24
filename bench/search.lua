-- A search: nine of ten find texts by two words of a full-text index, the tenth reads one text of some kilobytes.
require("oltp_common")

local TEXTS, WORDS, WORDS_EACH = 5000, 2000, 60

local function make_tables()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE texts (id INT PRIMARY KEY, title VARCHAR(64), body TEXT, FULLTEXT (body))")
   con:bulk_insert_init("INSERT INTO texts VALUES")
   local state = 1
   for i = 1, TEXTS do
      local words = {}
      for j = 1, WORDS_EACH do
         state = (state * 1103515245 + 12345) % 2147483648
         words[j] = "word" .. math.floor(state / 65536) % WORDS
      end
      con:bulk_insert_next("(" .. i .. ",'title " .. i .. "','" .. table.concat(words, " ") .. string.rep(" filler", 400) .. "')")
   end
   con:bulk_insert_done()
   con:disconnect()
end

sysbench.cmdline.commands.prepare = { make_tables }

function prepare_statements()
end

local function any_word()
   return "word" .. sysbench.rand.uniform(0, WORDS - 1)
end

function event()
   if sysbench.rand.uniform(1, 10) == 1 then
      con:query("SELECT title, body FROM texts WHERE id = " .. sysbench.rand.uniform(1, TEXTS))
   else
      con:query("SELECT id, title FROM texts WHERE MATCH (body) AGAINST ('" .. any_word() .. " " .. any_word() ..
                "') LIMIT 10")
   end
end
