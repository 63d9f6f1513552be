-- Reads the state that a raise depends on. KEYS: the marker, the resource. ARGV: resource.
local s = look(ARGV[1], KEYS[2], here())
return answer(s.foreign_schema and 'schema' or 'seen', 1, s)
