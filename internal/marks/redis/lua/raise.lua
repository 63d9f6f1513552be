-- KEYS: the marker, the resource. ARGV: resource, token, issuer, holder; the basis that look
-- returned; nonce and epoch for mend.
local s = look(ARGV[1], KEYS[2], here())
local refused = judge(s, ARGV[2], ARGV[3])
if refused then return answer(refused, 1, s) end
if s.basis ~= ARGV[5] then return answer('changed', 1, s) end
local before = answer('raised', 1, s)
local gone = s.gone
if not mend(s, ARGV[6], ARGV[7]) then return answer('lost', 1, s) end

if s.token == ARGV[2] and not gone then -- the mark is the claim's: only confirm it
  if s.server ~= s.now.server then
    forget_sessions(s.key)
    redis.call('HSET', s.key, 'server', s.now.server)
  end
else
  write_mark(s, ARGV[2], ARGV[3], ARGV[4], s.adoption)
end
return before
