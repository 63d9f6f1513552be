-- Runs commands in their order, after gate.lua. ARGV from the fourth on: for each command the
-- number of its words, then the words. Returns one reply for each. An error is a reply as well, and
-- the later commands still run.
local replies, i = {}, 4
while i <= #ARGV do
  local words = tonumber(ARGV[i])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, i + 1, i + words))
  i = i + 1 + words
end
return replies
