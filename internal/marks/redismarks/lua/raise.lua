-- KEYS: the marker, the resource. ARGV: resource, token, issuer, holder, candidate; the basis that
-- look returned; nonce and epoch for mend.
--
-- The caller has asked whether the claim leads, after look. So a claim that is below the mark, or has
-- its number as another candidate, is of a coordinator that was rolled back. That is written down with
-- the mark. Each further try of a leader counts up, and would be above the mark sooner or later.
local s = look(ARGV[1], KEYS[2], here())
local refused = of_functions(ARGV[3]) and 'issuer' or judge(s, ARGV[2], ARGV[3])
if refused and refused ~= 'stale' then return answer(refused, 1, s) end
if s.basis ~= ARGV[6] then return answer('changed', 1, s) end
if refused == 'stale' or s.token == ARGV[2] and another(s, ARGV[5]) then
  alone(s.key)
  redis.call('HSET', s.key, 'candidate', s.candidate, 'rolled_back', '1')
  return answer('rolled back', 1, s)
end
local before = answer('raised', 1, s)
local gone = s.gone
if not mend(s, ARGV[7], ARGV[8]) then return answer('lost', 1, s) end

if s.token == ARGV[2] and not gone then -- the mark is the claim's: only confirm it
  if s.server ~= s.now.server then forget_sessions(s.key) end
  redis.call('HSET', s.key, 'server', s.now.server, 'rolled_back', '0',
    'candidate', ARGV[5] ~= '' and ARGV[5] or s.candidate)
else
  write_mark(s, ARGV[2], ARGV[3], ARGV[4], s.adoption, ARGV[5])
end
return before
