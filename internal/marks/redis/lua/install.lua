-- KEYS: the marker. ARGV: nonce and epoch, as for mend.
local m = redis.call('HMGET', MARKER, 'schema', 'epoch', 'ending:', 'ended')
if m[2] and not known(m[1]) then return {'schema', m[1]} end
if m[2] and m[1] ~= '1' then return {'installed'} end
local server = here().server
if ARGV[1] == '' or m[3] ~= ARGV[1] .. ' ' .. server then return {'lost'} end
alone()
redis.call('HDEL', MARKER, 'ending:')
redis.call('HSET', MARKER, 'schema', schema(), 'ended', server)
if not m[2] then redis.call('HSET', MARKER, 'epoch', ARGV[2], 'origin', 'install') end
return {'installed'}
