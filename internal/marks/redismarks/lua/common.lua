-- This text comes before every other script. Redis treats each key in KEYS as one that the script
-- writes. Users that run commands under a token may read the marker but not write it, so scripts
-- that run under a token do not declare it. All keys are in database 0, because sessions belong to
-- the server, whatever database they select.
--
-- The marker has these fields:
--   schema, epoch
--   authorize        '1' while authorization is on; the schema is '3' then, which programs refuse that
--                    know nothing of authorization
--   origin           'install', or 'raise' when a raise had to make the marker again
--   resource:<name>  for every resource with a mark; 'function' if a function has raised it
--   ended            the server on which every unrecorded connection was ended
--   functions        the server on which a function has raised a mark
--   original         the encoding of ringfence:.original at that time
--   ending:<name>    while the connections of a server with a lost registry are being ended
--
-- A resource has these fields:
--   token, issuer, holder, raised (µs since 1970), adoption
--   candidate            whose term has raised the mark, or '' where that is not known; after a take
--                        <highest attempt so far>:<a name that no other take has>
--   rolled_back          '1' if the issuer gives out tokens a second time: nobody of it counts any more
--   server, epoch        under which the mark was raised or confirmed
--   under                the token of all recorded sessions
--   session:<client id>  for every recorded session
--
-- ringfence:.allowed has these fields:
--   <user> <pattern>     the epoch of the marker for which it was allowed; under another one it does
--                        not count
--   .on                  '1' while authorization is on, so that the loss of one key does not end it
--
-- ringfence:.original is a short string in the encoding that SETRANGE gives it. Neither an RDB file
-- nor a DUMP keeps that, so it tells data that were loaded from data that were written here.
--
-- A marker without an epoch does not count.

local MARKER = 'ringfence'
local ALLOWED = 'ringfence:.allowed'
local ORIGINAL = 'ringfence:.original'
local FIXED = 8 -- the fields of a resource besides its sessions, candidate and rolled_back
local SCHEMA = '4'

-- here returns which server answers. The script reads it, so it is the server of the decision. run
-- is the process, in which client ids are unique. server also has the history of its data: a
-- replication id that changes with every change of role.
local function here()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
  return {run = run, server = run .. '/' .. id}
end

-- marker reads schema, epoch, ended, original, functions and further fields of the marker. If the marker
-- is of this server and was loaded since, it may be an earlier one, and counts as one without an epoch.
local function marker(now, ...)
  local m = redis.call('HMGET', MARKER, 'schema', 'epoch', 'ended', 'original', 'functions', ...)
  local encoding = redis.call('OBJECT', 'ENCODING', ORIGINAL) -- false if there is none: no sign
  if (m[3] == now.server or m[5] == now.server) and encoding and encoding ~= m[4] then m[2] = false end
  return m
end

-- alone makes database 0 the only one that counts, for a script that is about to write: elsewhere it
-- deletes the marker, and takes the epoch from the records of these keys. So what SWAPDB brings here
-- later is what was written last, or counts as lost. Tokens stay, and still refuse lower ones.
local function alone(...)
  for number in string.gmatch(redis.call('INFO', 'keyspace'), 'db(%d+):keys=') do
    if number ~= '0' then
      redis.call('SELECT', number)
      redis.call('DEL', MARKER)
      for _, key in ipairs({...}) do redis.pcall('HDEL', key, 'epoch') end
    end
  end
  redis.call('SELECT', 0)
end

-- higher compares tokens: decimal text without leading zeros, by length and then byte by byte. A
-- Lua number would lose digits above 2^53, and the order of Lua strings depends on the locale.
local function higher(a, b)
  if #a ~= #b then return #a > #b end
  for i = 1, #a do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return false
end

-- earlier returns whether a schema is of an earlier version. It counts as lost.
local function earlier(schema) return schema == '1' or schema == '2' or schema == '3' end

-- known returns whether this program knows a schema.
local function known(schema) return earlier(schema) or schema == SCHEMA end

-- authorizing returns whether authorization is on.
local function authorizing()
  return redis.call('HGET', MARKER, 'authorize') == '1' or redis.call('HGET', ALLOWED, '.on') == '1'
end

-- allowed returns whether a user may claim a resource. A * in a pattern stands for any text.
local function allowed(user, resource, epoch)
  for _, field in ipairs(redis.call('HKEYS', ALLOWED)) do
    local name, pattern = string.match(field, '^(%S+) ([a-z0-9_*]+)$')
    if name == user and string.match(resource, '^' .. string.gsub(pattern, '%*', '.*') .. '$')
      and redis.call('HGET', ALLOWED, field) == epoch then
      return true
    end
  end
  return false
end

-- of_functions returns whether an issuer is one of tokens that functions give out. No guard admits a
-- session under them, so their marks do not depend on the registry.
local function of_functions(issuer) return issuer == 'take' or string.sub(issuer, 1, 6) == 'bring:' end

-- look reads the state of a resource.
local function look(resource, key, now)
  local m = marker(now, 'origin', 'resource:' .. resource)
  local f = redis.call('HMGET', key, 'token', 'issuer', 'holder', 'raised', 'server', 'epoch', 'under', 'adoption',
    'candidate', 'rolled_back')
  local s = {
    resource = resource, key = key, now = now,
    installed = m[2] ~= false, foreign_schema = m[1] ~= false and not known(m[1]), marker_epoch = m[2],
    listed = m[7] ~= false, functional = m[7] == 'function', marked_here = m[3] == now.server or m[5] == now.server,
    present = f[1] ~= false, token = f[1] or '0', issuer = f[2] or '', holder = f[3] or '',
    raised = f[4] or '0', server = f[5], under = f[7], adoption = f[8] or '', sessions = 0,
    candidate = f[9] or '', rolled_back = f[10] == '1',
  }
  -- The record of this resource is lost, or an earlier one was restored.
  s.gone = not s.installed or (s.listed and not s.present) or (s.present and f[6] ~= m[2])
  -- The registry is lost, and sessions from it may still live. Those may be sessions of other
  -- resources, and sessions that this process admitted before it was a replica for a time.
  s.foreign_data = earlier(m[1]) or not known(m[1])
  s.lost = s.gone or s.foreign_data or m[3] ~= now.server
  if s.present then
    s.confirmed = s.server == now.server
    if of_functions(s.issuer) then
      s.confirmed = s.confirmed and not s.gone and not s.foreign_data
    else
      s.confirmed = s.confirmed and not s.lost
    end
    s.continued = not s.gone
    if s.confirmed or of_functions(s.issuer) then s.sessions = redis.call('HLEN', key) - FIXED - (f[9] and 2 or 0) end
  else
    s.confirmed = not s.lost and m[6] == 'install'
    s.continued = not s.gone and m[6] == 'install'
  end
  -- The state that a raise depends on.
  s.basis = table.concat({now.server, m[2] or '-', s.token, s.issuer, s.raised, f[5] or '-', f[6] or '-', s.adoption}, ' ')
  return s
end

-- judge returns the reason to refuse a claim, or nil. What is left of a lost mark still refuses
-- lower tokens.
local function judge(s, token, issuer)
  if s.foreign_schema then return 'schema' end
  if s.present and s.issuer ~= issuer then return 'issuer' end
  if s.rolled_back then return 'rolled back' end
  if higher(s.token, token) then return 'stale' end
end

-- another returns whether a candidate is not the mark's, as far as both are known.
local function another(s, candidate)
  return s.candidate ~= '' and candidate ~= '' and s.candidate ~= candidate
end

local function flag(b) return b and '1' or '0' end

-- answer returns a verdict on the i-th claim, with the mark that it met.
local function answer(verdict, i, s)
  return {verdict, tostring(i), s.token, s.issuer, s.holder, s.raised, flag(s.confirmed), flag(s.installed), tostring(s.sessions),
    flag(s.continued), s.adoption, flag(s.lost), s.basis, s.now.run, s.candidate, flag(s.rolled_back)}
end

-- answer_for_raise also says whether there are records of sessions that may still live at other servers
-- (leave.lua).
local function answer_for_raise(verdict, i, s)
  local list = answer(verdict, i, s)
  list[#list + 1] = flag(redis.call('HGET', 'ringfence:.left', 'tried'))
  return list
end

-- forget_sessions drops every record of a session. The caller knows that all these sessions have
-- ended.
local function forget_sessions(key)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 8) == 'session:' then redis.call('HDEL', key, field) end
  end
end

-- keep makes the marker count on this server from now on. field is 'ended' once every unrecorded
-- connection was ended, and 'functions' for the marks of functions only.
local function keep(now, field)
  redis.call('DEL', ORIGINAL)
  redis.call('SETRANGE', ORIGINAL, 0, 'original')
  redis.call('HSET', MARKER, 'schema', SCHEMA, field, now.server,
    'original', redis.call('OBJECT', 'ENCODING', ORIGINAL))
end

-- mend prepares a resource whose registry is lost for a new mark. It needs the proof that every
-- connection that could be an old session was ended: the nonce that was written on this server
-- before that, and is still there.
local function mend(s, nonce, epoch)
  local ending = 'ending:' .. s.resource
  local proven = nonce ~= '' and redis.call('HGET', MARKER, ending) == nonce .. ' ' .. s.now.server
  if s.lost and not proven then return false end
  alone(s.key)
  if not s.lost then return true end
  redis.call('HDEL', MARKER, ending)
  if s.gone then redis.call('DEL', s.key) end
  if not s.installed then
    redis.call('HSET', MARKER, 'epoch', epoch, 'origin', 'raise')
    s.marker_epoch = epoch
  end
  keep(s.now, 'ended')
  return true
end

-- write_mark writes a mark on this server. Sessions of another server have ended, or were ended
-- with all connections.
local function write_mark(s, token, issuer, holder, adoption, candidate)
  local time = redis.call('TIME')
  local kept = s.present and not s.gone and s.server == s.now.server
  if s.present and not kept then forget_sessions(s.key) end
  redis.call('HSET', s.key, 'token', token, 'issuer', issuer, 'holder', holder,
    'raised', time[1] .. string.rep('0', 6 - #time[2]) .. time[2], 'adoption', adoption,
    'server', s.now.server, 'epoch', s.marker_epoch, 'under', kept and s.under or '-',
    'candidate', candidate, 'rolled_back', '0')
  redis.call('HSET', MARKER, 'resource:' .. s.resource, of_functions(issuer) and 'function' or '')
end
