-- Deletes a checkpoint. The check of internal/marks/redismarks/gate.go runs first; ARGV[1] is the claim's
-- resource.
-- KEYS: the task, the set of all tasks. ARGV[4]: the task.
local stored = redis.call('HMGET', KEYS[1], 'version', 'resource')
if not stored[1] and redis.call('HLEN', KEYS[1]) > 0 then return {'corrupt'} end
if stored[1] and stored[2] ~= ARGV[1] then return {'resource', stored[2] or ''} end

-- A user without the right to SREM is refused here, where nothing has changed. No task has this name.
redis.call('SREM', KEYS[2], '')
-- The name last: readers skip a name without a checkpoint, but they would miss a checkpoint without
-- a name.
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[4])
return {'forgotten'}
