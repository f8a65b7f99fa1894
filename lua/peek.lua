#!lua flags=no-writes
-- Reads what requests would meet, and writes nothing. KEYS, ARGV and reply as in check.lua, but each request is seen on its
-- own, flags mean nothing, and its byte is always 1: whoever asks decides from the values.

local limits, shapes, words = read_limits(ARGV[2]), numbers(ARGV[3], 'B', 1), numbers(ARGV[4], 'I2', 2)

local starts, at = {}, 1
while shapes[at] do
  starts[#starts + 1] = at
  at = at + shapes[at] * 5 + 2
end

local figures, count = {}, 0
at = 1
while words[at] do
  local cost, keys_at, start = words[at + 1] + words[at + 2] * 2^16 + words[at + 3] % 256 * 2^32, at + 4, starts[words[at] + 1]
  for line = start + 2, start + shapes[start] * 5 - 3, 5 do
    local limit = limits[shapes[line + 2] + shapes[line + 3] * 256 + 1]
    if limit[2] == 6 then
      local k, log = words[keys_at + shapes[line]], words[keys_at + shapes[line + 1]]
      local i = find(k, limit[1])
      local used, oldest_us, wait_us = logs().look(limit, records[k], i, cost, KEYS[log])
      figures[#figures + 1] = pack('<I5I7I7', used < 2^40 and used or 2^40 - 1, oldest_us, wait_us)
    end
  end
  at, count = keys_at + shapes[start + 1], count + 1
end

values[records_count + 1] = pack('<I7', now_us) .. rep('\1', count) .. table.concat(figures)
return values
