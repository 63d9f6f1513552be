-- gate returns nil if something may run under a claim now: the mark is confirmed on this server and is
-- the claim's, and no session under another token is recorded, because that session may still live.
-- Otherwise it returns a verdict, and the state. Redis runs nothing else until the script ends, so no
-- raise can come between this check and the script's writes.
local function gate(resource, token, issuer, candidate)
  local s = look(resource, MARKER .. ':' .. resource, here())
  local refused = judge(s, token, issuer)
  if refused then return refused, s end
  if not s.installed and not s.present then return 'missing', s end
  -- 0 is nobody's: it is the mark of a resource that was never raised, or was adopted.
  if token == '0' then return 'raise', s end
  if not s.confirmed or s.token ~= token or another(s, candidate) then return 'raise', s end
  -- Functions count their tokens in Redis, which may lose the count. So the number alone is nobody's.
  if s.issuer == 'take' and s.candidate ~= candidate then return 'raise', s end
  if s.sessions > 0 and s.under ~= token then return 'revoke', s end
end
