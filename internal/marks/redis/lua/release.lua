-- Drops the records of an ended session, of all resources. KEYS: the marker. ARGV: its run, its
-- client id.
local now = here()
if now.run ~= ARGV[1] then return {'elsewhere'} end
for _, field in ipairs(redis.call('HKEYS', MARKER)) do
  if string.sub(field, 1, 9) == 'resource:' then
    local key = MARKER .. ':' .. string.sub(field, 10)
    if redis.call('HGET', key, 'server') == now.server then redis.call('HDEL', key, 'session:' .. ARGV[2]) end
  end
end
return {'released'}
