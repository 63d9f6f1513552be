-- Drops the records of sessions that have ended, and lists the remaining sessions that are not
-- under the claim. KEYS: the marker, the resource. ARGV: resource, token, issuer; the run on which
-- sessions were ended, and their client ids. A run never uses a client id twice.
local now = here()
if now.run == ARGV[4] and redis.call('HGET', KEYS[2], 'server') == now.server then
  for i = 5, #ARGV do redis.call('HDEL', KEYS[2], 'session:' .. ARGV[i]) end
end
local s = look(ARGV[1], KEYS[2], now)
local refused = judge(s, ARGV[2], ARGV[3])
if refused then return answer(refused, 1, s) end
if not s.confirmed or s.token ~= ARGV[2] then return answer('raise', 1, s) end

local list = {'others', now.run}
if s.sessions > 0 and s.under ~= ARGV[2] then
  for _, field in ipairs(redis.call('HKEYS', s.key)) do
    if string.sub(field, 1, 8) == 'session:' then list[#list + 1] = string.sub(field, 9) end
  end
end
return list
