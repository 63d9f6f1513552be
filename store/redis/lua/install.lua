-- KEYS: the marker. ARGV: nonce, run and epoch, as for mend.
local m = redis.call('HMGET', MARKER, 'schema', 'epoch', 'ending:')
if m[2] and m[1] ~= SCHEMA then return {'schema', m[1]} end
if m[2] then return {'installed'} end
if ARGV[1] == '' or m[3] ~= ARGV[1] or ARGV[2] ~= now_run() then return {'lost'} end
redis.call('HDEL', MARKER, 'ending:')
redis.call('HSET', MARKER, 'schema', SCHEMA, 'epoch', ARGV[3], 'origin', 'install')
return {'installed'}
