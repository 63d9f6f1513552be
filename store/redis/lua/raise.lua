-- KEYS: the marker, the resource. ARGV: resource, token, issuer, holder; nonce, run and epoch for mend.
local s = look(ARGV[1], KEYS[2], now_run())
local refused = judge(s, ARGV[2], ARGV[3])
if refused then return answer(refused, 1, s) end
local before = answer('raised', 1, s)
local lost = s.lost
if not mend(s, ARGV[5], ARGV[6], ARGV[7]) then return answer('lost', 1, s) end

if s.token == ARGV[2] and not lost then -- the mark is the claim's: confirm it, and leave the rest as it was
  if s.run ~= s.now then
    forget_sessions(s.key)
    redis.call('HSET', s.key, 'run', s.now)
  end
else
  if lost then s.present = false end
  write_mark(s, ARGV[2], ARGV[3], ARGV[4])
end
return before
