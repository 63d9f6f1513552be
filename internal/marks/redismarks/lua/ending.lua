-- Announces that every connection of this server will be ended. KEYS: the marker, and the resource,
-- except for install. ARGV: resource ('' for install), nonce. If the state is lost again before the
-- end of that, so is the nonce.
local now = here()
redis.call('HSET', MARKER, 'ending:' .. ARGV[1], ARGV[2] .. ' ' .. now.server)
if ARGV[1] == '' then return {'ending', now.run} end
return answer('ending', 1, look(ARGV[1], KEYS[2], now))
