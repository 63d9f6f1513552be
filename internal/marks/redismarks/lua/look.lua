-- Reads the state that a raise depends on. KEYS: the marker, the resource. ARGV: resource; the user for
-- whose session the mark would be raised, or '' if it is raised for none.
local s = look(ARGV[1], KEYS[2], here())
if ARGV[2] ~= '' and not s.foreign_schema and authorizing() and not allowed(ARGV[2], s.resource, s.marker_epoch) then
  return answer('forbidden', 1, s)
end
if s.foreign_schema then return answer('schema', 1, s) end
return answer_for_raise('seen', 1, s)
