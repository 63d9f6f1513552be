-- Tries, on a separate key, every command that the other scripts need, and returns those that may
-- not be run, with the error. KEYS: the marker, the key to try on.
local tries = {
  {'INFO', 'server'}, {'TIME'}, {'HMGET', MARKER, 'epoch'}, {'DEL', KEYS[2]}, {'HSET', KEYS[2], 'a', 'b'},
  {'HGET', KEYS[2], 'a'}, {'HKEYS', KEYS[2]}, {'HLEN', KEYS[2]}, {'HDEL', KEYS[2], 'a'}, {'XADD', KEYS[2], '*', 'a', 'b'},
  {'DEL', KEYS[2]}, {'SETRANGE', KEYS[2], 0, 'a'}, {'OBJECT', 'ENCODING', KEYS[2]}, {'DEL', KEYS[2]}, {'SELECT', 0},
}
local failed = {'probed'}
for _, try in ipairs(tries) do
  local result = redis.pcall(unpack(try))
  if type(result) == 'table' and result.err then
    failed[#failed + 1] = string.lower(try[1]) .. ': ' .. result.err
  end
end
return failed
