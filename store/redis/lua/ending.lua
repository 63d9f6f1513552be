-- Announces that every connection of this run is about to be ended. KEYS: the marker. ARGV: resource ('' for install),
-- nonce. If the state is lost once more before that is done, the nonce is lost with it.
redis.call('HSET', MARKER, 'ending:' .. ARGV[1], ARGV[2])
return {'ending', now_run()}
