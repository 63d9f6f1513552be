-- Makes the functions one script. ARGV: the name of a function, then its arguments.
local called = functions[table.remove(ARGV, 1) or '']
if not called then
  return redis.error_reply('ERR the first argument is ringfence_exec, ringfence_take, ringfence_bring or ringfence_version')
end
return called(ARGV)
