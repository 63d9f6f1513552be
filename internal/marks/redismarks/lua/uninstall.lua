-- Says who relies on the marker and the marks, or removes them. KEYS: the marker. ARGV: 'look' or 'drop';
-- the nonce of an announcement after which every connection was ended, or ''; the run of recorded sessions
-- that have ended, and their client ids. A run never uses a client id twice.
--
-- If the registry is lost, as after a restart, it may lack any session. Then only that nonce proves that
-- nobody is left.
local now = here()
local m = marker(now, 'ending:')
if m[1] and not known(m[1]) then return {'schema', m[1]} end
local proven = ARGV[2] ~= '' and m[6] == ARGV[2] .. ' ' .. now.server
local lost = (not m[2] or earlier(m[1]) or m[3] ~= now.server) and not proven

local gone = {}
if ARGV[3] == now.run then
  for i = 4, #ARGV do gone[ARGV[i]] = true end
end
local keys = {MARKER, ORIGINAL, ALLOWED, MARKER .. ':.audit', MARKER .. ':.probe', MARKER .. ':.left'}
local remains = {'remains', flag(lost), now.run}
for _, field in ipairs(redis.call('HKEYS', MARKER)) do
  local resource = string.match(field, '^resource:(.+)$')
  local key = resource and MARKER .. ':' .. resource
  if key then keys[#keys + 1] = key end
  if key and redis.call('HGET', key, 'server') == now.server then
    for _, of in ipairs(redis.call('HKEYS', key)) do
      local id = string.match(of, '^session:(.+)$')
      if id and not gone[id] then remains[#remains + 1] = id end
    end
  end
end
if ARGV[1] ~= 'drop' or lost or #remains > 3 then return remains end
for _, key in ipairs(keys) do redis.call('DEL', key) end
return {'dropped'}
