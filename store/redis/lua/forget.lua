-- Drops the records of sessions that are gone. KEYS: the marker, the resource. ARGV: the run on which they were ended,
-- their client ids. An id is never used twice on one run.
local run = now_run()
if run == ARGV[1] and redis.call('HGET', KEYS[2], 'run') == run then
  for i = 2, #ARGV do redis.call('HDEL', KEYS[2], 'session:' .. ARGV[i]) end
end
return {'forgotten'}
