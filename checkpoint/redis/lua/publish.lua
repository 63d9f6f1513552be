-- Writes a checkpoint, if the one before it is stored. It runs behind the gate of store/redis: ARGV[1] and ARGV[2] are the
-- claim's resource and token. Versions are compared as text: a Lua number would lose digits.
-- KEYS: the task, the set of all tasks. ARGV from the fourth on: the version before ('0': none), the version, the
-- checkpoint, the task, the channel.
local stored = redis.call('HMGET', KEYS[1], 'version', 'resource')
if not stored[1] and redis.call('HLEN', KEYS[1]) > 0 then return {'corrupt'} end
if stored[1] and stored[2] ~= ARGV[1] then return {'resource', stored[2] or ''} end
if (stored[1] or '0') ~= ARGV[4] then return {'conflict', stored[1] or '0'} end

redis.call('SADD', KEYS[2], ARGV[7]) -- first: a name without a checkpoint is passed over, the other way round it is missed
redis.call('HSET', KEYS[1], 'version', ARGV[5], 'resource', ARGV[1], 'token', ARGV[2], 'checkpoint', ARGV[6])
redis.pcall('PUBLISH', ARGV[8], ARGV[5]) -- whoever misses it looks for himself
return {'published'}
