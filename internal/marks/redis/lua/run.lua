-- Runs commands in their order, after gate.lua. ARGV from the fourth on: for each command the number of its words, and
-- its words. Answers one reply for each; an error is one of them, and the others are run all the same.
local replies, i = {}, 4
while i <= #ARGV do
  local words = tonumber(ARGV[i])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, i + 1, i + words))
  i = i + 1 + words
end
return replies
