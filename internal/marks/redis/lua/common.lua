-- This comes before every other script. What a script is given as KEYS says what it writes: Redis takes a key that is
-- declared for one that is written, and whoever runs commands under a token may read the marker and not write it. All keys
-- are in database 0, for sessions belong to the server, whatever database they have selected.
--
-- marker   schema, epoch, origin ('install', or 'raise' when a raise had to make it again), resource:<name> for every
--          resource that has a mark, ended: the server on which every connection was ended that is not recorded,
--          ending:<name> while the connections of a server with a lost registry are ended
-- resource token, issuer, holder, raised (µs since 1970), adoption, server and epoch under which it was raised or
--          confirmed, under (the token that all recorded sessions are under), session:<client id> for every recorded session
--
-- A marker without an epoch is no marker yet.

local MARKER = 'ringfence'
local FIXED = 8 -- fields of a resource that are no sessions
local SCHEMA = '2'

-- here tells which server answers, read in the script, so that it is that of the decision. run is the process: client ids
-- are its own. server is also the history of its data: a replication id that changes with every change of role, and what
-- SWAPDB has done so far, for that puts other data in the place of ours, and can put them back.
local function here()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
  local swaps = string.match(redis.call('INFO', 'commandstats'), 'cmdstat_swapdb:(calls=%d+,usec=%d+)') or ''
  return {run = run, server = run .. '/' .. id .. '/' .. swaps}
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
local function look(resource, key, now)
  local m = redis.call('HMGET', MARKER, 'schema', 'epoch', 'origin', 'resource:' .. resource, 'ended')
  local f = redis.call('HMGET', key, 'token', 'issuer', 'holder', 'raised', 'server', 'epoch', 'under', 'adoption')
  local s = {
    resource = resource, key = key, now = now,
    installed = m[2] ~= false, foreign_schema = m[2] ~= false and m[1] ~= SCHEMA and m[1] ~= '1', marker_epoch = m[2],
    listed = m[4] ~= false, present = f[1] ~= false, token = f[1] or '0', issuer = f[2] or '', holder = f[3] or '',
    raised = f[4] or '0', server = f[5], under = f[7], adoption = f[8] or '', sessions = 0,
  }
  -- The record of this resource is lost, or was brought back from an earlier time.
  s.gone = not s.installed or (s.listed and not s.present) or (s.present and f[6] ~= m[2])
  -- The registry is lost while sessions that were in it may still live: also those of other resources, and those that this
  -- process has admitted before it was a replica for a while.
  s.lost = s.gone or m[1] ~= SCHEMA or m[5] ~= now.server
  if s.present then
    s.confirmed = not s.lost and s.server == now.server
    s.continued = not s.gone
    if s.confirmed then s.sessions = redis.call('HLEN', key) - FIXED end
  else
    s.confirmed = not s.lost and m[3] == 'install'
    s.continued = not s.gone and m[3] == 'install'
  end
  -- What a raise depends on.
  s.basis = table.concat({now.server, m[2] or '-', s.token, s.issuer, s.raised, f[5] or '-', f[6] or '-', s.adoption}, ' ')
  return s
end

-- judge names the reason to refuse a claim, or nil. What is left of a lost mark still refuses what is below it.
local function judge(s, token, issuer)
  if s.foreign_schema then return 'schema' end
  if s.present and s.issuer ~= issuer then return 'issuer' end
  if higher(s.token, token) then return 'stale' end
end

local function flag(b) return b and '1' or '0' end

-- answer is a verdict on the i-th claim, with the mark that it met.
local function answer(verdict, i, s)
  return {verdict, tostring(i), s.token, s.issuer, s.holder, s.raised, flag(s.confirmed), flag(s.installed), tostring(s.sessions),
    flag(s.continued), s.adoption, flag(s.lost), s.basis, s.now.run}
end

-- forget_sessions drops every record of a session; the caller knows that all of them are gone.
local function forget_sessions(key)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 8) == 'session:' then redis.call('HDEL', key, field) end
  end
end

-- mend gets a resource whose registry is lost ready to be written anew. It needs the proof that every connection that
-- could be an old session was ended: the nonce that was written before they were, on this server, and is still there.
local function mend(s, nonce, epoch)
  if not s.lost then return true end
  local ending = 'ending:' .. s.resource
  if nonce == '' or redis.call('HGET', MARKER, ending) ~= nonce .. ' ' .. s.now.server then return false end
  redis.call('HDEL', MARKER, ending)
  if s.gone then redis.call('DEL', s.key) end
  if not s.installed then
    redis.call('HSET', MARKER, 'epoch', epoch, 'origin', 'raise')
    s.marker_epoch = epoch
  end
  redis.call('HSET', MARKER, 'schema', SCHEMA, 'ended', s.now.server)
  return true
end

-- write_mark sets a mark on this server. Sessions of another one are dead, or were ended with everybody else.
local function write_mark(s, token, issuer, holder, adoption)
  local time = redis.call('TIME')
  local kept = s.present and not s.gone and s.server == s.now.server
  if s.present and not kept then forget_sessions(s.key) end
  redis.call('HSET', s.key, 'token', token, 'issuer', issuer, 'holder', holder,
    'raised', time[1] .. string.rep('0', 6 - #time[2]) .. time[2], 'adoption', adoption,
    'server', s.now.server, 'epoch', s.marker_epoch, 'under', kept and s.under or '-')
  redis.call('HSET', MARKER, 'resource:' .. s.resource, '')
end
