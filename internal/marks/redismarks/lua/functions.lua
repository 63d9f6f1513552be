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
