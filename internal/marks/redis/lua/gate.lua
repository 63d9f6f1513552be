-- Comes after common.lua and before a script that runs under a claim. ARGV: resource, token,
-- issuer; the script's own from ARGV[4] on. It lets the script run only while the mark is confirmed
-- on this server and is the claim's, and no session under another token is recorded, because that
-- session may still live. Redis runs nothing else until the script ends, so no raise can come
-- between this check and the script's writes. DATABASE is the script's database. Behind the issuer comes
-- the candidate, on another line.
local function gate()
  local issuer, candidate = string.match(ARGV[3], '^([^\n]*)\n?(.*)$')
  ARGV[3] = issuer
  if DATABASE ~= 0 then redis.call('SELECT', 0) end
  local s = look(ARGV[1], MARKER .. ':' .. ARGV[1], here())
  if DATABASE ~= 0 then redis.call('SELECT', DATABASE) end
  local refused = judge(s, ARGV[2], ARGV[3])
  if refused then return answer(refused, 1, s) end
  if not s.installed and not s.present then return answer('missing', 1, s) end
  if not s.confirmed or s.token ~= ARGV[2] or another(s, candidate) then return answer('raise', 1, s) end
  if s.sessions > 0 and s.under ~= ARGV[2] then return answer('revoke', 1, s) end
end

local shut = gate()
if shut then return shut end
