-- Comes after gate.lua and before a script that runs under a claim. ARGV: resource, token, issuer; the
-- script's own from ARGV[4] on. Behind the issuer comes the candidate, on another line. Marks are in
-- database 0; DATABASE is the script's own.
do
  local issuer, candidate = string.match(ARGV[3], '^([^\n]*)\n?(.*)$')
  ARGV[3] = issuer
  if DATABASE ~= 0 then redis.call('SELECT', 0) end
  local shut, s = gate(ARGV[1], ARGV[2], issuer, candidate)
  if DATABASE ~= 0 then redis.call('SELECT', DATABASE) end
  if shut then return answer(shut, 1, s) end
end
