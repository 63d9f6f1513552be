-- Reads marks. KEYS: the marker. ARGV: the resources. Without any it returns the names of all
-- resources that have a mark.
local now = here()
local m = marker(now)
if m[1] and not known(m[1]) then return {'schema'} end

local list = {m[2] and 'marks' or 'missing'}
if #ARGV == 0 then
  for _, field in ipairs(redis.call('HKEYS', MARKER)) do
    if string.sub(field, 1, 9) == 'resource:' then list[#list + 1] = string.sub(field, 10) end
  end
end
for _, name in ipairs(ARGV) do
  local s = look(name, MARKER .. ':' .. name, now)
  if s.present or s.listed and s.installed then list[#list + 1] = answer(name, 1, s) end
end
return list
