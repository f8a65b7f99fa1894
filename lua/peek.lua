#!lua flags=no-writes
-- Reads what requests would meet, and writes nothing. KEYS, ARGV and reply as in check.lua, but each request is seen on its
-- own, flags mean nothing, and its byte is always 1: whoever asks decides from the values.

local figures, limits = {}, read_limits(ARGV[2])

-- The lines of each shape that ask for a log, and how many keys a request of it names.
local function read_shapes(text)
  local shapes, at = {}, 1
  while at <= #text do
    local n
    local shape = {}
    n, shape.keys, at = unbytes('<BB', text, at)
    for _ = 1, n do
      local key, log, limit
      key, log, limit, _, at = unbytes('<BBI2B', text, at)
      if limits[limit + 1][2] == 6 then
        shape[#shape + 1] = {key + 1, log + 1, limits[limit + 1]}
      end
    end
    shapes[#shapes + 1] = shape
  end
  return shapes
end

local shapes, requests, at, count = read_shapes(ARGV[3]), ARGV[4], 1, 0
while at <= #requests do
  local number, cost = unbytes('<I2I5B', requests, at)
  local shape = shapes[number + 1]
  local keys = {unbytes('<' .. rep('I2', shape.keys), requests, at + 8)}
  at, count = keys[shape.keys + 1], count + 1
  for j = 1, #shape do
    local line = shape[j]
    local e, slots = load(keys[line[1]])
    local i = find(e, slots, line[3][1])
    local used, oldest_us, wait_us = look_hits(line[3], e, i, cost, KEYS[keys[line[2]]])
    figures[#figures + 1] = pack('<I5I7I7', min(used, COUNT_MAX), oldest_us, wait_us)
  end
end

values[records_count + 1] = pack('<I7', now_us) .. rep('\1', count) .. concat(figures)
return values
