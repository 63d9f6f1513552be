-- Reads the recorded sessions of a resource that belong to another run of a server. KEYS: the marker, the
-- resource. Returns that run, then their client ids.
local run = string.match(redis.call('HGET', KEYS[2], 'server') or '', '^(%x+)/')
local list = {'left', run or ''}
if run and run ~= here().run then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(field, 1, 8) == 'session:' then list[#list + 1] = string.sub(field, 9) end
  end
end
return list
