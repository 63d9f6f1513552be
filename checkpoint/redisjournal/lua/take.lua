-- Reads a checkpoint for the leader. The check of internal/marks/redismarks/gate.go runs first; ARGV[1]
-- is the claim's resource.
-- KEYS: the task. ARGV[4]: the version that the caller has.
local stored = redis.call('HMGET', KEYS[1], 'version', 'resource', 'checkpoint')
if not stored[1] then
  if redis.call('HLEN', KEYS[1]) > 0 then return {'corrupt'} end
  return {ARGV[4] == '0' and 'same' or 'none'}
end
if stored[2] ~= ARGV[1] then return {'resource', stored[2] or ''} end
if stored[1] == ARGV[4] then return {'same'} end
return {'checkpoint', stored[1], stored[3] or ''}
