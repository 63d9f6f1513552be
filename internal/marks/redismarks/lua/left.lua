-- Lists sessions at other servers that may still live. KEYS: the marker, the resource, the kept
-- records. Returns the run that the resource's sessions belong to, and their client ids if that is
-- another run; then the kept records of other runs, <run>:<client id> each, but only every few
-- seconds: a search connects to every replica.
local EVERY = 5
local now, ids, records = here(), {}, {}
local run = string.match(redis.call('HGET', KEYS[2], 'server') or '', '^(%x+)/')
if run and run ~= now.run then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(field, 1, 8) == 'session:' then ids[#ids + 1] = string.sub(field, 9) end
  end
end
local time, tried = tonumber(redis.call('TIME')[1]), redis.call('HGET', KEYS[3], 'tried')
if tried and math.abs(time - tried) >= EVERY then
  for _, record in ipairs(redis.call('HKEYS', KEYS[3])) do
    local of = string.match(record, '^(%x+):')
    if of and of ~= now.run then records[#records + 1] = record end
  end
  redis.call('HSET', KEYS[3], 'tried', time)
end
return {'left', run or '', ids, records}
