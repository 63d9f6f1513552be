return run(ARGV, 4)
