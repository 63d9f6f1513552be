-- Lists the sessions that are not under the claim. KEYS: the marker, the resource. ARGV: resource, token, issuer.
local s = look(ARGV[1], KEYS[2], here())
local refused = judge(s, ARGV[2], ARGV[3])
if refused then return answer(refused, 1, s) end
if not s.confirmed or s.token ~= ARGV[2] then return answer('raise', 1, s) end

local list = {'others', s.now.run}
if s.sessions > 0 and s.under ~= ARGV[2] then
  for _, field in ipairs(redis.call('HKEYS', s.key)) do
    if string.sub(field, 1, 8) == 'session:' then list[#list + 1] = string.sub(field, 9) end
  end
end
return list
