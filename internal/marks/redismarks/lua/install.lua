-- KEYS: the marker. ARGV: nonce and epoch, as for mend.
local now = here()
local m = marker(now, 'ending:')
if m[1] and not known(m[1]) then return {'schema', m[1]} end
if m[2] and not earlier(m[1]) then return {'installed'} end
if ARGV[1] == '' or m[6] ~= ARGV[1] .. ' ' .. now.server then return {'lost'} end
alone()
redis.call('HDEL', MARKER, 'ending:')
keep(now, 'ended')
if not m[2] then redis.call('HSET', MARKER, 'epoch', ARGV[2], 'origin', 'install') end
return {'installed'}
