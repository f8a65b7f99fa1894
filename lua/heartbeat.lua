#!lua
-- Says that a node is alive, and who else is.
--
-- KEYS[1]  sorted set of node ids by when they were last heard of, in ms on the server's clock
-- ARGV[1]  text    this node's id
-- ARGV[2]  number  ms after which a silent node counts as gone
-- Reply    the ids of all nodes that are alive, this one among them, at most 4096

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local silence_ms = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms - silence_ms))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', silence_ms * 2))
return redis.call('ZRANGE', KEYS[1], 0, 4095)
