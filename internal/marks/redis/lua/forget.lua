-- Drops the records of sessions that are gone. KEYS: the marker, the resource. ARGV: the run on which they were ended,
-- their client ids. An id is never used twice on one run.
local now = here()
if now.run == ARGV[1] and redis.call('HGET', KEYS[2], 'server') == now.server then
  for i = 2, #ARGV do redis.call('HDEL', KEYS[2], 'session:' .. ARGV[i]) end
end
return {'forgotten'}
