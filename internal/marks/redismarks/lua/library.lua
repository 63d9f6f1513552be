-- Makes the functions those of a library. A function that takes a token also runs when Redis is out of
-- memory: a new holder must be let in then, too.
local function register(name, ...)
  redis.register_function{function_name = name, flags = {...}, callback = function(_, args) return functions[name](args) end}
end
register('ringfence_exec', 'no-cluster')
register('ringfence_take', 'no-cluster', 'allow-oom')
register('ringfence_bring', 'no-cluster', 'allow-oom')
register('ringfence_version', 'no-writes', 'allow-oom', 'allow-stale')
