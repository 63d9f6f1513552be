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
