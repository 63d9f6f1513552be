-- KEYS: the marker, the resource, the audit. ARGV: resource, token, issuer, holder; nonce and epoch
-- for mend; by; a name for the adoption.
local s = look(ARGV[1], KEYS[2], here())
if s.foreign_schema then return answer('schema', 1, s) end
if not s.installed then return answer('missing', 1, s) end
local before = answer('adopted', 1, s)
if not mend(s, ARGV[5], ARGV[6]) then return answer('lost', 1, s) end

redis.call('XADD', KEYS[3], '*', 'resource', ARGV[1], 'by', ARGV[7],
  'before', s.token, 'from', s.issuer, 'after', ARGV[2], 'to', ARGV[3])
s.under = '-' -- no token: the recorded sessions are under none now, even if the number is the same
write_mark(s, ARGV[2], ARGV[3], ARGV[4], ARGV[8], '')
return before
