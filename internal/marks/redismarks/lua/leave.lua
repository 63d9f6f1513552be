-- Keeps the records of the sessions that left.lua has listed and that have not ended. KEYS: the
-- marker, the resource, the kept records. ARGV: <run>:<client id> of each session that has ended.
--
-- A kept record has the time at which it was made, and the field tried that of the last try.
-- Nothing shows that a run of a server is over. So a record is dropped after a week, and beyond
-- 1000 none is kept.
local MOST, WEEK = 1000, 7 * 86400
local now, time = here(), tonumber(redis.call('TIME')[1])
local ended, kept = {}, 0
for _, record in ipairs(ARGV) do ended[record] = true end
for _, record in ipairs(redis.call('HKEYS', KEYS[3])) do
  local run = string.match(record, '^(%x+):')
  if run and (ended[record] or time - redis.call('HGET', KEYS[3], record) > WEEK) then
    redis.call('HDEL', KEYS[3], record)
  elseif run then
    kept = kept + 1
  end
end
local run = string.match(redis.call('HGET', KEYS[2], 'server') or '', '^(%x+)/')
if run and run ~= now.run then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local id = string.match(field, '^session:(.+)$')
    if id and kept < MOST and not ended[run .. ':' .. id] then
      redis.call('HSET', KEYS[3], run .. ':' .. id, time)
      kept = kept + 1
    end
  end
end
if kept == 0 then redis.call('DEL', KEYS[3]) else redis.call('HSET', KEYS[3], 'tried', time) end
return {'kept'}
