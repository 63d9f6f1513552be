-- This comes before every other script. What a script is given as KEYS says what it writes: Redis takes a key that is
-- declared for one that is written, and whoever runs commands under a token may read the marker and not write it.
--
-- marker   schema, epoch, origin ('install', or 'raise' when a raise had to make it again), resource:<name> for every
--          resource that has a mark, ending:<name> while the connections of a server with a lost registry are ended
-- resource token, issuer, holder, raised (µs since 1970), run and epoch under which it was raised or confirmed, under
--          (the token that all recorded sessions are under), session:<client id> for every recorded session
--
-- A marker without an epoch is no marker yet.

local MARKER = 'ringfence'
local FIXED = 7 -- fields of a resource that are no sessions
local SCHEMA = '1'

-- now_run is the identity of this run of the server. It is read in the script, so that it is that of the decision.
local function now_run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- higher compares tokens: decimal text without leading zeros, by length and then byte by byte. A Lua number would lose
-- digits above 2^53, and the order of Lua strings is the locale's.
local function higher(a, b)
  if #a ~= #b then return #a > #b end
  for i = 1, #a do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return false
end

-- look reads all that is known of a resource.
local function look(resource, key, run)
  local m = redis.call('HMGET', MARKER, 'schema', 'epoch', 'origin', 'resource:' .. resource)
  local f = redis.call('HMGET', key, 'token', 'issuer', 'holder', 'raised', 'run', 'epoch', 'under')
  local s = {
    resource = resource, key = key, now = run,
    installed = m[2] ~= false, foreign_schema = m[2] ~= false and m[1] ~= SCHEMA, marker_epoch = m[2],
    present = f[1] ~= false, token = f[1] or '0', issuer = f[2] or '', holder = f[3] or '', raised = f[4] or '0',
    run = f[5], under = f[7], sessions = 0,
  }
  -- The registry is lost while sessions that were in it may still live.
  s.lost = not s.installed or (m[4] ~= false and not s.present) or (s.present and f[6] ~= m[2])
  if s.present then
    s.confirmed = not s.lost and s.run == run
    if s.run == run then s.sessions = redis.call('HLEN', key) - FIXED end
  else
    s.confirmed = not s.lost and m[3] == 'install'
  end
  return s
end

-- judge names the reason to refuse a claim, or nil. What is left of a lost mark still refuses what is below it.
local function judge(s, token, issuer)
  if s.foreign_schema then return 'schema' end
  if s.present and s.issuer ~= issuer then return 'issuer' end
  if higher(s.token, token) then return 'stale' end
end

-- answer is a verdict on the i-th claim, with the mark that it met.
local function answer(verdict, i, s)
  return {verdict, tostring(i), s.token, s.issuer, s.holder, s.raised, s.confirmed and '1' or '0',
    s.installed and '1' or '0', tostring(s.sessions)}
end

-- forget_sessions drops every record of a session; the caller knows that all of them are gone.
local function forget_sessions(key)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 8) == 'session:' then redis.call('HDEL', key, field) end
  end
end

-- mend gets a resource whose registry is lost ready to be written anew. It needs the proof that every connection that
-- could be an old session was ended: the nonce that was written before they were, on this run, and is still there.
local function mend(s, nonce, run, epoch)
  if not s.lost then return true end
  local ending = 'ending:' .. s.resource
  if nonce == '' or run ~= s.now or redis.call('HGET', MARKER, ending) ~= nonce then return false end
  redis.call('HDEL', MARKER, ending)
  redis.call('DEL', s.key)
  if not s.installed then
    redis.call('HSET', MARKER, 'schema', SCHEMA, 'epoch', epoch, 'origin', 'raise')
    s.marker_epoch = epoch
  end
  return true
end

-- write_mark sets a mark on this run. Sessions of another run are dead, whoever recorded them.
local function write_mark(s, token, issuer, holder)
  local time = redis.call('TIME')
  if s.present and s.run ~= s.now then forget_sessions(s.key) end
  redis.call('HSET', s.key, 'token', token, 'issuer', issuer, 'holder', holder,
    'raised', time[1] .. string.rep('0', 6 - #time[2]) .. time[2],
    'run', s.now, 'epoch', s.marker_epoch, 'under', s.present and s.under or '-')
  redis.call('HSET', MARKER, 'resource:' .. s.resource, '')
end
