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
-- gate returns nil if something may run under a claim now: the mark is confirmed on this server and is
-- the claim's, and no session under another token is recorded, because that session may still live.
-- Otherwise it returns a verdict, and the state. Redis runs nothing else until the script ends, so no
-- raise can come between this check and the script's writes.
local function gate(resource, token, issuer, candidate)
  local s = look(resource, MARKER .. ':' .. resource, here())
  local refused = judge(s, token, issuer)
  if refused then return refused, s end
  if not s.installed and not s.present then return 'missing', s end
  -- 0 is nobody's: it is the mark of a resource that was never raised, or was adopted.
  if token == '0' then return 'raise', s end
  if not s.confirmed or s.token ~= token or another(s, candidate) then return 'raise', s end
  -- Functions count their tokens in Redis, which may lose the count. So the number alone is nobody's.
  if s.issuer == 'take' and s.candidate ~= candidate then return 'raise', s end
  if s.sessions > 0 and s.under ~= token then return 'revoke', s end
end
-- run runs commands in their order. argv has, from first on, for each command the number of its words,
-- then the words. It returns one reply for each. An error is a reply as well, and the later commands
-- still run.
local function run(argv, first)
  local replies, i = {}, first
  while i <= #argv do
    local words = tonumber(argv[i])
    replies[#replies + 1] = redis.pcall(unpack(argv, i + 1, i + words))
    i = i + 1 + words
  end
  return replies
end
-- The functions for programs in any language, documented in docs/redis.md. They come after gate.lua and
-- commands.lua: as a library for FCALL, and as one script for EVAL, whose first argument is the
-- function's name. Each takes its arguments in args and returns its result, or an error whose first
-- word says why nothing was changed. They use the keys of database 0.
--
-- A pass is a claim as one text without blanks in its parts: resource, token, issuer, candidate.

-- error_of returns an error as a client reads it.
local function error_of(word, message, detail, hint)
  return redis.error_reply(word .. ' ' .. message .. ' — ' .. detail .. ' (' .. hint .. ')')
end

local function bad(message)
  return error_of('BADTOKEN', message, 'nothing was changed', 'see https://github.com/ringfence/ringfence/blob/main/docs/redis.md for the arguments')
end

local function not_installed(s)
  local detail = 'the marker key is missing or was restored: it was never made, ' ..
    'or Redis has lost or replaced its data since'
  if s.foreign_data and s.installed or s.foreign_schema then
    detail = 'the marker in Redis is of another version of ringfence'
  end
  return error_of('NOTINSTALLED', 'ringfence is not installed in this store', detail .. '; nothing was changed',
    'an operator runs: guard install; in another database than 0 begin the commands with SELECT')
end

local function stale(s, token)
  return error_of('STALETOKEN',
    'stale token: ' .. token .. ' is older than the mark ' .. s.token .. ' of "' .. s.resource .. '"',
    s.holder .. ' raised it; nothing was changed', 'this process no longer leads: stop; no retry with this one will succeed')
end

local function other_issuer(s, token, issuer)
  if token == '' then
    return error_of('ISSUER', 'the mark ' .. s.token .. ' of "' .. s.resource .. '" was raised by others than ' .. issuer,
      (s.present and 'it is of issuer ' .. s.issuer or 'Redis has lost it') .. '; nothing was changed',
      'a resource is elected, taken or brought: use another name')
  end
  return error_of('ISSUER',
    'token ' .. token .. ' of "' .. s.resource .. '" comes from another issuer than the mark ' .. s.token,
    'the mark was raised under ' .. s.issuer .. ', the token comes from ' .. issuer .. '; nothing was changed',
    'a resource is elected, taken or brought: use another name, or let an operator run: guard adopt ' .. s.resource)
end

local function not_authorized(s, who)
  return error_of('NOTAUTHORIZED', 'role "' .. who .. '" may not claim "' .. s.resource .. '"', 'nothing was changed',
    'let an operator run: guard allow ' .. who .. ' ' .. s.resource)
end

local function unraised(s, token, detail)
  return error_of('NOTRAISED', 'the mark of "' .. s.resource .. '" is not raised to token ' .. token,
    detail .. '; nothing was changed', 'take or bring it again, with the same attempt or token')
end

-- refusals turns a verdict of gate into the error.
local refusals = {stale = stale, schema = not_installed, missing = not_installed, issuer = other_issuer}

refusals['rolled back'] = function(s)
  return error_of('ISSUER', 'the coordinator went back: it gives out tokens of "' .. s.resource .. '" a second time',
    'a leader has had a token that is not above the mark ' .. s.token .. '; nothing was changed',
    'an operator stops all leaders, paused ones too, and runs: guard adopt --new-issuer ' .. s.resource)
end

refusals.revoke = function(s)
  local as = of_functions(s.issuer) and 'GUARD_COORDINATOR= GUARD_ISSUER=' .. s.issuer .. ' ' or ''
  return error_of('REVOKE', 'older sessions of "' .. s.resource .. '" could not be ended in time',
    s.sessions .. ' that guards have admitted under another token may still live; nothing was changed',
    'try again when a guard has ended them, or let an operator run: ' .. as .. 'guard adopt ' .. s.resource)
end

refusals.raise = function(s, token)
  local detail = 'the mark is ' .. s.token
  if s.present and s.token == token and not s.confirmed then
    detail = 'the mark is this token\'s, but Redis was restarted or has lost data since it was raised: ' ..
      'it may have been higher'
  elseif s.present and s.token == token then
    detail = 'the mark has this number, which another take has given out'
  end
  return unraised(s, token, detail)
end

-- number returns a decimal number without leading zeros, or nil if it is not one of 0 to 2^63-1.
local function number(text)
  local digits = string.match(text or '', '^0*(%d+)$')
  if digits and not higher(digits, '9223372036854775807') then return digits end
end

-- after returns the number that follows a number. It stays text: a Lua number would lose digits.
local function after(token)
  local head, digit, nines = string.match(token, '^(%d*)([0-8])(9*)$')
  if not head then return '1' .. string.rep('0', #token) end
  return head .. string.char(string.byte(digit) + 1) .. string.rep('0', #nines)
end

local function is_resource(text) return #text <= 48 and string.match(text, '^[a-z][a-z0-9_]*$') end
local function is_holder(text) return #text >= 1 and #text <= 1024 and not string.find(text, '%c') end

-- opened returns the state of a resource, or the error that keeps a function named who from raising its
-- mark. Those that guards have raised are theirs, whether or not Redis still has them: their sessions may
-- live, and a script cannot end a connection.
local function opened(resource, who)
  redis.call('SELECT', 0)
  local s = look(resource, MARKER .. ':' .. resource, here())
  if s.foreign_schema or not s.installed or s.foreign_data then return s, not_installed(s) end
  if (who == 'ringfence_bring' or authorizing()) and not allowed(who, resource, s.marker_epoch) then
    return s, not_authorized(s, who)
  end
  if s.present and not of_functions(s.issuer) or not s.present and s.listed and not s.functional then
    return s, other_issuer(s, '', who)
  end
  -- An adoption was interrupted. The clients of an earlier run of the server are gone.
  if s.sessions > 0 and string.match(s.server or '', '^[^/]*') == s.now.run then return s, refusals.revoke(s) end
  return s
end

-- raise_to writes a mark of a function. Guards still find the registry lost if it is.
local function raise_to(s, token, issuer, holder, candidate)
  alone(s.key)
  if s.gone then redis.call('DEL', s.key) end
  if not s.marked_here then keep(s.now, 'functions') end
  write_mark(s, token, issuer, holder, s.adoption, candidate)
end

local function pass(resource, token, issuer, candidate)
  return table.concat({resource, token, issuer, candidate == '' and '-' or candidate}, ' ')
end

local functions = {}

-- ringfence_take gives a holder a new token, and returns a pass. args: resource, holder, attempt or nothing.
function functions.ringfence_take(args)
  local resource, holder, attempt = args[1] or '', args[2] or '', args[3] or ''
  if not is_resource(resource) then return bad('"' .. resource .. '" is no resource') end
  if not is_holder(holder) then return bad('a holder has 1 to 1024 bytes, and no control characters') end
  if attempt ~= '' then attempt = number(attempt) end
  if not attempt or #args > 3 then return bad('an attempt is a number from 0 to 9223372036854775807') end
  local s, refused = opened(resource, 'ringfence_take')
  if refused then return refused end
  if s.present and s.issuer ~= 'take' then return other_issuer(s, '', 'ringfence_take') end

  local highest = string.match(s.candidate, '^(%d*):') or ''
  if attempt ~= '' and highest ~= '' and (higher(highest, attempt) or highest == attempt and s.holder ~= holder) then
    return error_of('STALETOKEN',
      'attempt ' .. attempt .. ' of "' .. resource .. '" is late: "' .. s.holder .. '" has attempt ' .. highest,
      'nothing was changed', 'this attempt is over: stop')
  end
  if s.confirmed and s.holder == holder and (attempt == '' or attempt == highest) then
    return pass(resource, s.token, 'take', s.candidate)
  end
  local token, time = after(s.token), redis.call('TIME')
  -- Redis may lose the mark and count from a lower one again. So the token has a name that no other
  -- take gives it: nobody has taken this number on this server at this microsecond.
  local name = redis.sha1hex(table.concat({s.now.server, s.marker_epoch, token, time[1], time[2]}, ' '))
  local candidate = (attempt == '' and highest or attempt) .. ':' .. string.sub(name, 1, 16)
  raise_to(s, token, 'take', holder, candidate)
  return pass(resource, token, 'take', candidate)
end

-- ringfence_bring raises the mark to somebody else's number, and returns a pass. args: resource, token,
-- issuer, holder.
function functions.ringfence_bring(args)
  local resource, token, issuer, holder = args[1] or '', number(args[2]), args[3] or '', args[4] or ''
  if not is_resource(resource) then return bad('"' .. resource .. '" is no resource') end
  if not token or token == '0' then return bad('a token is a number from 1 to 9223372036854775807') end
  if #issuer > 200 or not string.match(issuer, '^[!-~]+$') then
    return bad('an issuer has 1 to 200 visible characters, and no blank')
  end
  if not is_holder(holder) or #args > 4 then return bad('a holder has 1 to 1024 bytes, and no control characters') end
  local s, refused = opened(resource, 'ringfence_bring')
  if refused then return refused end
  issuer = 'bring:' .. issuer
  if s.present and s.issuer ~= issuer then return other_issuer(s, token, issuer) end
  if higher(s.token, token) then return stale(s, token) end
  if not s.confirmed and not s.continued then
    return error_of('INDOUBT',
      'the mark of "' .. resource .. '" may have been lost, and nobody confirms a token that is brought',
      'nothing was changed', 'an operator makes sure that no older leader runs, and runs: guard adopt ' .. resource)
  end
  if not s.confirmed or s.token ~= token then raise_to(s, token, issuer, holder, '') end
  return pass(resource, token, issuer, '')
end

-- framed returns whether args from the second on are commands, each after the number of its words.
local function framed(args)
  local i = 2
  while i <= #args do
    local words = string.match(args[i], '^[1-9]%d?%d?%d?$') and tonumber(args[i])
    if not words or words > 7000 or i + words > #args then return false end
    i = i + 1 + words
  end
  return i > 2
end

-- ringfence_exec runs commands under a pass. args: the pass; then one command, whose reply it returns, or
-- for each of several commands the number of its words and the words, for a list of replies.
function functions.ringfence_exec(args)
  local resource, token, issuer, candidate = string.match(args[1] or '', '^(%S+) (%d+) (%S+) (%S+)$')
  if not resource or not is_resource(resource) or number(token) ~= token then
    return bad('this is not a valid pass: use the one that ringfence_take or ringfence_bring returned')
  end
  local several = string.match(args[2] or '', '^%d')
  if several and not framed(args) or #args < 2 or #args > 7001 and not several then
    return bad('this is neither a command nor commands, each after the number of its 1 to 7000 words')
  end
  -- A script cannot learn which database it runs in. So it stays there, where the marker is only if it is
  -- database 0, unless the commands themselves choose one.
  if several and string.upper(args[3]) == 'SELECT' then redis.call('SELECT', 0) end
  local shut, s = gate(resource, token, issuer, candidate == '-' and '' or candidate)
  if shut then return refusals[shut](s, token, issuer) end
  if several then return run(args, 2) end
  return redis.pcall(unpack(args, 2))
end

-- ringfence_version returns the version of these functions.
function functions.ringfence_version() return '1' end
-- Makes the functions one script. ARGV: the name of a function, then its arguments.
local called = functions[table.remove(ARGV, 1) or '']
if not called then
  return redis.error_reply('ERR the first argument is ringfence_exec, ringfence_take, ringfence_bring or ringfence_version')
end
return called(ARGV)
