#!lua flags=allow-oom
-- Forgets counters.
--
-- KEYS, ARGV[1]  as in check.lua
-- ARGV[2]        counters, each I2 key (index into KEYS from 1), I2 log key (likewise, 0: none), I5 id
-- Reply          how many of them there were

local counters, at, forgotten = ARGV[2], 1, 0
while at <= #counters do
  local k, log, id
  k, log, id, at = unbytes('<I2I2I5', counters, at)
  local i = find(k, id)
  if i > 0 and records[k][i + 3] then
    records[k][i + 3], lasts_us[k], forgotten = false, 0, forgotten + 1
  end
  if log > 0 then
    call('DEL', KEYS[log])
  end
end
for k = 1, records_count do
  if lasts_us[k] then
    write(k)
  end
end
return forgotten
