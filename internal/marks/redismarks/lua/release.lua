-- Drops the records of ended sessions. KEYS: the marker. ARGV: their run; client id and resource of
-- each record.
local now = here()
if now.run ~= ARGV[1] then return {'elsewhere'} end
for i = 2, #ARGV, 2 do
  local key = MARKER .. ':' .. ARGV[i + 1]
  if redis.call('HGET', key, 'server') == now.server then redis.call('HDEL', key, 'session:' .. ARGV[i]) end
end
return {'released'}
