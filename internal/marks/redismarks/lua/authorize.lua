-- Reads and changes who may claim what. KEYS: the marker. ARGV: what to do, a user, patterns.
--   read           nothing is changed
--   allow, forbid  a user, and patterns; forbid without a pattern takes back all of them
--   on, off        switches authorization
-- Returns '1' if authorization is on, the number of fields removed, and for each field its name and
-- '1' if it counts.
local m = marker(here())
if not m[2] then return {'missing'} end
if not known(m[1]) or earlier(m[1]) then return {'schema'} end
if ARGV[1] ~= 'read' then alone() end

local removed = 0
if ARGV[1] == 'allow' then
  for i = 3, #ARGV do redis.call('HSET', ALLOWED, ARGV[2] .. ' ' .. ARGV[i], m[2]) end
elseif ARGV[1] == 'forbid' and #ARGV > 2 then
  for i = 3, #ARGV do removed = removed + redis.call('HDEL', ALLOWED, ARGV[2] .. ' ' .. ARGV[i]) end
elseif ARGV[1] == 'forbid' then
  for _, field in ipairs(redis.call('HKEYS', ALLOWED)) do
    if string.match(field, '^(%S+) ') == ARGV[2] then removed = removed + redis.call('HDEL', ALLOWED, field) end
  end
elseif ARGV[1] == 'on' then
  redis.call('HSET', ALLOWED, '.on', '1')
  redis.call('HSET', MARKER, 'authorize', '1')
elseif ARGV[1] == 'off' then
  redis.call('HDEL', ALLOWED, '.on')
  redis.call('HDEL', MARKER, 'authorize')
end

local list = {'authorization', flag(authorizing()), tostring(removed)}
for _, field in ipairs(redis.call('HKEYS', ALLOWED)) do
  if field ~= '.on' then
    list[#list + 1] = field
    list[#list + 1] = flag(redis.call('HGET', ALLOWED, field) == m[2])
  end
end
return list
