package flaw

// Script is the name of SCRIPT in Redis with the flaw Renamed.
const Script = "RUNS"
