-- KEYS: the marker, one resource per claim. ARGV: client id, run and user of the session; resource,
-- token, issuer, candidate per claim.
local now = here()
if now.run ~= ARGV[2] then return {'elsewhere'} end

local claims = {}
for i = 1, #KEYS - 1 do
  claims[i] = look(ARGV[4 * i], KEYS[i + 1], now)
  claims[i].want, claims[i].from, claims[i].by = ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3]
end
if authorizing() then
  for i, s in ipairs(claims) do
    if s.foreign_schema then return answer('schema', i, s) end
    if not allowed(ARGV[3], s.resource, s.marker_epoch) then return answer('forbidden', i, s) end
  end
end
for i, s in ipairs(claims) do
  local refused = of_functions(s.from) and 'issuer' or judge(s, s.want, s.from)
  if refused then return answer(refused, i, s) end
end
for i, s in ipairs(claims) do
  if not s.confirmed or higher(s.want, s.token) or s.by ~= '' and s.by ~= s.candidate then
    return answer_for_raise('raise', i, s)
  end
end
for i, s in ipairs(claims) do
  if s.sessions > 0 and s.under ~= s.want then return answer('revoke', i, s) end
end
alone(unpack(KEYS, 2))
for _, s in ipairs(claims) do
  redis.call('HSET', s.key, 'under', s.want, 'session:' .. ARGV[1], s.want)
end
return answer('admitted', 1, claims[1])
