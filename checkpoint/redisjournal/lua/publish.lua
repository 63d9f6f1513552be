-- Writes a checkpoint if the version before it is stored. The check of internal/marks/redismarks/gate.go
-- runs first; ARGV[1] and ARGV[2] are the claim's resource and token. Versions are compared as text,
-- because a Lua number would lose digits.
-- KEYS: the task, the set of all tasks. ARGV from the fourth on: the version before ('0': none), the
-- version, the checkpoint, the task, the channel.
local stored = redis.call('HMGET', KEYS[1], 'version', 'resource')
if not stored[1] and redis.call('HLEN', KEYS[1]) > 0 then return {'corrupt'} end
if stored[1] and stored[2] ~= ARGV[1] then return {'resource', stored[2] or ''} end
if (stored[1] or '0') ~= ARGV[4] then return {'conflict', stored[1] or '0'} end

-- The name first: readers skip a name without a checkpoint, but they would miss a checkpoint without
-- a name.
redis.call('SADD', KEYS[2], ARGV[7])
redis.call('HSET', KEYS[1], 'version', ARGV[5], 'resource', ARGV[1], 'token', ARGV[2],
  'checkpoint', ARGV[6])
redis.pcall('PUBLISH', ARGV[8], ARGV[5]) -- may fail; followers also poll
return {'published'}
