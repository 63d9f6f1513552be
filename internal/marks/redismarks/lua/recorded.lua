-- Lists the recorded sessions of this server. KEYS: the marker. Returns the run, then for each session
-- its resource and its client id.
local now = here()
local list = {'recorded', now.run}
for _, field in ipairs(redis.call('HKEYS', MARKER)) do
  local resource = string.match(field, '^resource:(.+)$')
  local key = resource and MARKER .. ':' .. resource
  if key and redis.call('HGET', key, 'server') == now.server then
    for _, of in ipairs(redis.call('HKEYS', key)) do
      if string.sub(of, 1, 8) == 'session:' then
        list[#list + 1] = resource
        list[#list + 1] = string.sub(of, 9)
      end
    end
  end
end
return list
