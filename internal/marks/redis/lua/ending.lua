-- Announces that every connection of this server is about to be ended. KEYS: the marker, and the resource, but for install.
-- ARGV: resource ('' for install), nonce. If the state is lost once more before that is done, the nonce is lost with it.
local now = here()
redis.call('HSET', MARKER, 'ending:' .. ARGV[1], ARGV[2] .. ' ' .. now.server)
if ARGV[1] == '' then return {'ending', now.run} end
return answer('ending', 1, look(ARGV[1], KEYS[2], now))
