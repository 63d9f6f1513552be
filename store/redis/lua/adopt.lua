-- KEYS: the marker, the resource, the audit. ARGV: resource, token, issuer, holder; nonce, run and epoch for mend; by.
local s = look(ARGV[1], KEYS[2], now_run())
if s.foreign_schema then return answer('schema', 1, s) end
if not s.installed then return answer('missing', 1, s) end
local before = answer('adopted', 1, s)
local lost = s.lost
if not mend(s, ARGV[5], ARGV[6], ARGV[7]) then return answer('lost', 1, s) end
if lost then s.present = false end

redis.call('XADD', KEYS[3], '*', 'resource', ARGV[1], 'by', ARGV[8],
  'before', s.token, 'from', s.issuer, 'after', ARGV[2], 'to', ARGV[3])
s.under = '-' -- no token: whatever is recorded is now under none, also under a token of the same number
write_mark(s, ARGV[2], ARGV[3], ARGV[4])
return before
